"""The score modifiers of GuacaMol, as functions of a number or an array: from a raw property to a desirability.

Source: Brown, Fiscato, Segler & Vaucher, J. Chem. Inf. Model. 59, 1096 (2019), and its supporting information. The
objective of a campaign has two of them already: `clipped` between 0 and 1 is `Ramp(low=lower, high=upper)`, and
`absolute`, where it is not negative, is `Window(low=target, high=target, tolerance=1)`.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def linear(x: Any, slope: float = 1.0) -> Any:
    """slope · x."""
    return slope * x


def squared(x: Any, target: float, coefficient: float = 1.0) -> Any:
    """1 at the target, less by coefficient · distance²; without a lower end."""
    return 1.0 - coefficient * (target - x) ** 2


def absolute(x: Any, target: float) -> Any:
    """1 at the target, less by the distance; without a lower end."""
    return 1.0 - abs(target - x)


def gaussian(x: Any, mu: float, sigma: float) -> Any:
    """exp(−½ ((x − mu) / sigma)²): 1 at mu."""
    return np.exp(-0.5 * ((x - mu) / sigma) ** 2)


def max_gaussian(x: Any, mu: float, sigma: float) -> Any:
    """1 at mu and above it, a Gaussian flank below."""
    return gaussian(np.minimum(x, mu), mu, sigma)


def min_gaussian(x: Any, mu: float, sigma: float) -> Any:
    """1 at mu and below it, a Gaussian flank above."""
    return gaussian(np.maximum(x, mu), mu, sigma)


def clipped(x: Any, upper: float, lower: float = 0.0, high: float = 1.0, low: float = 0.0) -> Any:
    """`low` at and beyond `lower`, `high` at and beyond `upper`, a line between; it falls where `upper` is below."""
    return np.clip(low + (high - low) * (x - lower) / (upper - lower), low, high)


def smooth_clipped(x: Any, upper: float, lower: float = 0.0, high: float = 1.0, low: float = 0.0) -> Any:
    """A logistic curve from `low` to `high` that is as steep in its middle as `clipped`."""
    middle, steepness = (upper + lower) / 2.0, 4.0 / (upper - lower)
    # tanh is the logistic function that does not overflow
    return low + (high - low) * 0.5 * (1.0 + np.tanh(0.5 * steepness * (x - middle)))


def thresholded(x: Any, threshold: float) -> Any:
    """x / threshold up to the threshold, 1 from there on; `clipped` without its lower end."""
    return np.minimum(x, threshold) / threshold

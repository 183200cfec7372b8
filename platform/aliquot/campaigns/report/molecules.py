"""Molecules as SVG that reads on light and dark: transparent ground, bonds and carbons in the page's own ink.

Molecules that share a Murcko scaffold (Bemis and Murcko, J. Med. Chem. 39, 2887, 1996) are drawn with it in the same
place, so that the eye sees what differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

SIZE = (264, 176)
INK = (0.0, 0.0, 0.0)
PALETTE = {
    -1: INK, 1: INK, 6: INK,
    7: (0.23, 0.44, 0.83), 8: (0.85, 0.20, 0.20), 9: (0.10, 0.60, 0.40), 15: (0.80, 0.45, 0.10),
    16: (0.70, 0.50, 0.05), 17: (0.10, 0.60, 0.40), 35: (0.65, 0.35, 0.20), 53: (0.55, 0.36, 0.78),
}  # fmt: skip
"""By atomic number, −1 for all others: mid tones, with contrast on white and on near-black."""


def draw(smiles: Sequence[str]) -> list[str]:
    """One inline SVG for each molecule."""
    from rdkit.Chem.Draw import rdMolDraw2D

    drawings = []
    for text, molecule in zip(smiles, lay_out(smiles), strict=True):
        drawer = rdMolDraw2D.MolDraw2DSVG(*SIZE)
        options: Any = drawer.drawOptions()
        options.clearBackground = False
        options.setAtomPalette(PALETTE)
        options.bondLineWidth, options.fixedBondLength = 1.4, 26
        drawer.DrawMolecule(molecule)
        drawer.FinishDrawing()
        drawings.append(_inline(drawer.GetDrawingText(), text))
    return drawings


def lay_out(smiles: Sequence[str]) -> list[Any]:
    """RDKit molecules with 2D coordinates; a scaffold stands in all of them as in the first that has it."""
    from rdkit import Chem
    from rdkit.Chem import rdDepictor
    from rdkit.Chem.Scaffolds import MurckoScaffold

    molecules = [Chem.MolFromSmiles(text) for text in smiles]
    templates: dict[str, Chem.Mol] = {}
    for molecule in molecules:
        scaffold = MurckoScaffold.GetScaffoldForMol(molecule)
        name = Chem.MolToSmiles(scaffold)
        if name in templates:
            rdDepictor.GenerateDepictionMatching2DStructure(molecule, templates[name], acceptFailure=True)
            continue
        rdDepictor.Compute2DCoords(molecule, canonOrient=True)
        if scaffold.GetNumAtoms():
            scaffold.AddConformer(_placed(molecule, molecule.GetSubstructMatch(scaffold)))
            templates[name] = scaffold
    return molecules


def _placed(molecule, match):
    """A conformer of a substructure at the places its atoms have in the molecule."""
    from rdkit.Chem import Conformer

    places, whole = Conformer(len(match)), molecule.GetConformer()
    for i, atom in enumerate(match):
        places.SetAtomPosition(i, whole.GetAtomPosition(atom))
    return places


def _inline(svg: str, label: str) -> str:
    svg = svg[svg.index("<svg") :].replace("#000000", "var(--ink)")
    width, height = SIZE
    svg = svg.replace(f"width='{width}px' height='{height}px'", "", 1)
    return svg.replace("<svg", f'<svg class="molecule" role="img" aria-label="{escape(label, quote=True)}"', 1)

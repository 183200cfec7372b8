"""A program for `external_process`: SMILES on standard input, JSON on standard output."""

import json
import sys

from rdkit import Chem

molecules = [Chem.MolFromSmiles(line.strip()) for line in sys.stdin]
rings = [None if mol is None else mol.GetRingInfo().NumRings() for mol in molecules]
atoms = [None if mol is None else mol.GetNumAtoms() for mol in molecules]
print(json.dumps({"version": 1, "payload": {"rings": rings, "atoms": atoms}}))

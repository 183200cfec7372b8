"""Relative adaptiveness of codons: how often a codon is used, divided by the most used one for the same amino acid.

Sources: *Escherichia coli* and *Saccharomyces cerevisiae*, from highly expressed genes: Sharp & Li, Nucleic Acids Res.
15, 1281 (1987), table 1. *Homo sapiens*, from all genes, since no set of highly expressed ones is agreed on:
shares in the Codon Usage Database, Nakamura, Gojobori & Ikemura, Nucleic Acids Res. 28, 292 (2000), divided here.

Methionine, tryptophan and the stops are left out: they have no choice.
"""

from __future__ import annotations

STOPS = ("TAA", "TAG", "TGA")

# amino acid: codon, w in E. coli, w in S. cerevisiae, share in H. sapiens
_TABLE = """
A  GCT  1  1  0.27
A  GCC  0.122  0.316  0.40
A  GCA  0.586  0.015  0.23
A  GCG  0.424  0.001  0.11
C  TGT  0.5  1  0.46
C  TGC  1  0.077  0.54
D  GAT  0.434  0.554  0.46
D  GAC  1  1  0.54
E  GAA  1  1  0.42
E  GAG  0.259  0.016  0.58
F  TTT  0.296  0.113  0.46
F  TTC  1  1  0.54
G  GGT  1  1  0.16
G  GGC  0.724  0.02  0.34
G  GGA  0.01  0.002  0.25
G  GGG  0.019  0.004  0.25
H  CAT  0.291  0.245  0.42
H  CAC  1  1  0.58
I  ATT  0.185  0.823  0.36
I  ATC  1  1  0.47
I  ATA  0.003  0.003  0.17
K  AAA  1  0.135  0.43
K  AAG  0.253  1  0.57
L  TTA  0.02  0.117  0.08
L  TTG  0.02  1  0.13
L  CTT  0.042  0.006  0.13
L  CTC  0.037  0.003  0.20
L  CTA  0.007  0.039  0.07
L  CTG  1  0.003  0.40
N  AAT  0.051  0.053  0.47
N  AAC  1  1  0.53
P  CCT  0.07  0.047  0.29
P  CCC  0.012  0.009  0.32
P  CCA  0.135  1  0.28
P  CCG  1  0.002  0.11
Q  CAA  0.124  1  0.27
Q  CAG  1  0.007  0.73
R  CGT  1  0.137  0.08
R  CGC  0.356  0.002  0.18
R  CGA  0.004  0.002  0.11
R  CGG  0.004  0.002  0.20
R  AGA  0.004  1  0.21
R  AGG  0.002  0.003  0.21
S  TCT  1  1  0.19
S  TCC  0.744  0.693  0.22
S  TCA  0.077  0.036  0.15
S  TCG  0.017  0.005  0.05
S  AGT  0.085  0.021  0.15
S  AGC  0.41  0.031  0.24
T  ACT  0.965  0.921  0.25
T  ACC  1  1  0.36
T  ACA  0.076  0.012  0.28
T  ACG  0.099  0.006  0.11
V  GTT  1  1  0.18
V  GTC  0.066  0.831  0.24
V  GTA  0.495  0.002  0.12
V  GTG  0.221  0.018  0.46
Y  TAT  0.239  0.071  0.44
Y  TAC  1  1  0.56
"""

_ROWS = [line.split() for line in _TABLE.strip().splitlines()]

AMINO_ACID: dict[str, str] = {codon: letter for letter, codon, *_ in _ROWS} | {"ATG": "M", "TGG": "W"}
"""What the 61 sense codons stand for in the standard code."""


def relative(shares: dict[str, float]) -> dict[str, float]:
    """Each codon's share over the largest share for the same amino acid."""
    largest: dict[str, float] = {}
    for codon, share in shares.items():
        largest[AMINO_ACID[codon]] = max(share, largest.get(AMINO_ACID[codon], 0.0))
    return {codon: share / largest[AMINO_ACID[codon]] for codon, share in shares.items()}


ADAPTIVENESS: dict[str, dict[str, float]] = {
    "e_coli": {codon: float(w) for _, codon, w, _, _ in _ROWS},
    "s_cerevisiae": {codon: float(w) for _, codon, _, w, _ in _ROWS},
    "h_sapiens": relative({codon: float(share) for _, codon, _, _, share in _ROWS}),
}

"""Boiling and flash points of common solvents.

Sources: boiling points at 101.325 kPa and enthalpies of vaporisation there, CRC Handbook of Chemistry and Physics,
95th ed. (2014), "Enthalpy of Vaporization"; where the handbook has none (2-MeTHF, NMP, TFE, propylene carbonate, HFIP,
GVL, sulfolane), Yaws, Thermophysical Properties of Chemicals and Hydrocarbons, 2nd ed. (2014). Flash points, closed
cup: IEC 60079-20-1:2010, else NFPA 497 (2008); of diglyme and DMSO: Chemical Laboratory Safety and Security, National
Academies Press (2016), appendix D.

Where that enthalpy misses the boiling point under 5 bar by more than 3 K (acids and nitriles, whose vapour associates,
xylenes, mesitylene, ethylene glycol), the one stands here that gives it, from the vapour pressures of the VDI Heat
Atlas, 2nd ed. (2010), section D3.1. Where none is tabulated, Trouton's rule stands in for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

TROUTON = 0.088
"""Entropy of vaporisation at the boiling point, kJ/(mol K), where no enthalpy is tabulated (Trouton 1884)."""
ATMOSPHERE = 1.01325
"""bar"""
GAS_CONSTANT = 8.314462618e-3
"""kJ/(mol K)"""

# name | other names | boiling point, °C | enthalpy of vaporisation, kJ/mol | flash point, °C, or none
_TABLE = """
water | H2O | 100.0 | 40.65 | none
methanol | MeOH | 64.6 | 35.21 | 9
ethanol | EtOH | 78.3 | 38.56 | 12
1-propanol | nPrOH | 97.2 | 41.44 | 15
2-propanol | isopropanol; iPrOH; IPA | 82.3 | 39.85 | 12
1-butanol | nBuOH; n-butanol | 117.7 | 43.29 | 35
2-butanol | sec-butanol | 99.5 | 40.75 | 24
tert-butanol | tBuOH | 82.4 | 39.07 | 10
tert-amyl alcohol | tAmOH | 102.4 | 39.04 | 18
ethylene glycol | | 197.3 | 53.4 | ?
acetone | propanone | 56.1 | 29.10 | -20
2-butanone | MEK | 79.6 | 31.30 | -10
MIBK | 4-methyl-2-pentanone | 116.5 | 34.49 | 16
cyclohexanone | | 155.4 | ? | 43
methyl acetate | MeOAc | 56.9 | 30.32 | -10
ethyl acetate | EtOAc | 77.1 | 31.94 | -4
isopropyl acetate | iPrOAc | 88.7 | 32.93 | 1
butyl acetate | BuOAc | 126.1 | 36.28 | 22
diethyl ether | Et2O; ether | 34.5 | 26.52 | -45
diisopropyl ether | DIPE | 68.4 | 29.10 | -28
MTBE | TBME | 55.0 | 27.94 | -27
THF | tetrahydrofuran | 65.0 | 29.81 | -14
2-MeTHF | 2-methyltetrahydrofuran | 80.2 | ? | ?
1,4-dioxane | dioxane | 101.5 | 34.16 | 11
DME | 1,2-dimethoxyethane | 84.5 | 32.42 | -6
diglyme | | 162.0 | 36.17 | 67
anisole | | 153.7 | 38.97 | ?
pentane | n-pentane | 36.1 | 25.79 | -40
hexane | n-hexane | 68.7 | 28.85 | -22
heptane | n-heptane | 98.4 | 31.77 | -7
cyclohexane | | 80.7 | 29.97 | -17
methylcyclohexane | | 100.9 | 31.27 | -4
benzene | | 80.1 | 30.72 | -11
toluene | PhMe | 110.6 | 33.18 | 4
o-xylene | | 144.5 | 37.5 | 30
m-xylene | | 139.1 | 37.0 | 25
p-xylene | | 138.2 | 35.67 | 25
chlorobenzene | PhCl | 131.7 | 35.19 | 28
DCM | dichloromethane; CH2Cl2 | 40.0 | 28.06 | none
chloroform | CHCl3 | 61.2 | 29.24 | none
carbon tetrachloride | CCl4 | 76.8 | 29.82 | none
DCE | 1,2-dichloroethane | 83.5 | 31.98 | 13
acetonitrile | MeCN | 81.7 | 32.5 | 2
butyronitrile | BuCN | 117.6 | 35.5 | ?
benzonitrile | PhCN | 191.1 | 42.4 | ?
nitromethane | MeNO2 | 101.2 | 33.99 | 35
DMF | N,N-dimethylformamide | 153.0 | ? | 58
DMAc | DMA; N,N-dimethylacetamide | 165.0 | ? | ?
NMP | N-methyl-2-pyrrolidone | 202.1 | ? | ?
DMSO | dimethylsulfoxide | 189.0 | 43.10 | 95
acetic acid | AcOH | 117.9 | 38.4 | 39
formic acid | HCOOH | 101.0 | 34.6 | 42
pyridine | | 115.2 | 35.09 | 18
triethylamine | Et3N | 89.0 | 31.01 | -8
TFE | 2,2,2-trifluoroethanol | 74.0 | ? | 30
trifluorotoluene | PhCF3 | 102.1 | 32.63 | ?
propylene carbonate | | 241.7 | ? | ?
mesitylene | | 164.7 | 40.3 | 44
o-DCB | 1,2-dichlorobenzene | 180.0 | 39.66 | 66
HFIP | 1,1,1,3,3,3-hexafluoro-2-propanol | 59.0 | ? | ?
GVL | gamma-valerolactone | 207.5 | ? | ?
sulfolane | | 287.3 | ? | ?
"""


@dataclass(frozen=True)
class Solvent:
    name: str
    boiling: float
    """At 101.325 kPa, °C."""
    enthalpy: float | None
    """Of vaporisation, kJ/mol; None: Trouton's rule."""
    flash: float | None
    """Closed cup, °C; infinite: it has none; None: not tabulated."""

    def boiling_at(self, pressure: float) -> float:
        """Boiling point under another pressure (bar), °C, by the integrated Clausius-Clapeyron equation."""
        kelvin = self.boiling + 273.15
        enthalpy = self.enthalpy if self.enthalpy is not None else TROUTON * kelvin
        return 1 / (1 / kelvin - GAS_CONSTANT * math.log(pressure / ATMOSPHERE) / enthalpy) - 273.15


def plain(name: str) -> str:
    """A name without case, blanks and punctuation: `2-Me-THF` is `2-MeTHF`."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _read(line: str) -> tuple[list[str], Solvent]:
    name, others, boiling, enthalpy, flash = (part.strip() for part in line.split("|"))
    known = {"?": None, "none": math.inf}
    solvent = Solvent(
        name,
        float(boiling),
        None if enthalpy == "?" else float(enthalpy),
        known[flash] if flash in known else float(flash),
    )
    return [name, *(other.strip() for other in others.split(";") if other.strip())], solvent


SOLVENTS: dict[str, Solvent] = {
    plain(name): solvent for names, solvent in map(_read, _TABLE.strip().splitlines()) for name in names
}
"""By every name, `plain`."""

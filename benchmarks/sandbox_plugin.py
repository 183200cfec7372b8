"""Hosted code of the sandbox benchmark: cheap work, real chemistry, and what a bad plugin does."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

MOLECULES = (
    "CC(=O)Oc1ccccc1C(=O)O", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "CC(C)Cc1ccc(cc1)C(C)C(=O)O", "CC(=O)Nc1ccc(O)cc1",
    "CN(C)CCCN1c2ccccc2Sc2ccc(Cl)cc21", "Clc1ccccc1C2=NCC(=O)Nc3ccc(cc23)[N+](=O)[O-]",
    "CC1=C(C(=O)N(N1C)c1ccccc1)N(C)CS(=O)(=O)O", "COc1cc2c(cc1OCCCN1CCOCC1)ncnc2Nc1ccc(F)c(Cl)c1",
    "Cc1ccc(cc1Nc1nccc(n1)-c1cccnc1)NC(=O)c1ccc(cc1)CN1CCN(C)CC1", "CC(C)NCC(O)COc1cccc2ccccc12",
    "CC12CCC3C(CCC4=CC(=O)CCC34C)C1CCC2O", "OC(=O)c1cn(C2CC2)c2cc(N3CCNCC3)c(F)cc2c1=O",
    "NC(=O)c1ncn(n1)C1OC(CO)C(O)C1O", "CC(C)(C)NCC(O)c1ccc(O)c(CO)c1", "CN1CCC23C4Oc5c3c(CC1C2C=CC4O)ccc5O",
    "Cc1nnc2CN=C(c3ccccc3Cl)c3cc(Cl)ccc3-n12",
)  # fmt: skip


def factory(argument: dict[str, Any]) -> dict[str, Any]:
    """`echo`, `qed` where the argument asks for chemistry, and `misbehave`."""
    methods = {"echo": lambda items: items, "misbehave": lambda items: [misbehave(item) for item in items]}
    if argument["chemistry"]:
        from rdkit.Chem import QED

        methods["qed"] = qed
        QED.qed  # noqa: B018  the import is what takes time
    return methods


def qed(items: list[str]) -> list[float]:
    """Drug-likeness of each molecule."""
    from rdkit import Chem
    from rdkit.Chem import QED

    return [QED.qed(Chem.MolFromSmiles(item)) for item in items]


def misbehave(how: str) -> str:
    """One bad deed of the soak."""
    if how == "crash":
        os.abort()
    if how == "hang":
        time.sleep(60)
    if how == "deaf":
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
                    signal.signal(number, signal.SIG_IGN)
                while True:
                    time.sleep(1)
        time.sleep(60)
    if how == "daemon" and os.fork() == 0:
        os.setsid()
        time.sleep(600)
        os._exit(0)
    if how == "print":
        os.write(1, b"x" * 2**16)
    if how == "files":
        with open("/tmp/file", "wb") as file:
            file.write(bytes(2**20))
    return how

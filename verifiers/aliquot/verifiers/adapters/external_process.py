"""A program that scores SMILES, in the contract of REINVENT4's ExternalProcess.

    standard input    one SMILES a line
    standard output   {"version": 1, "payload": {"predictions": [0.1, 0.7, …], …}}

It is started once for each batch, inside the sandbox, and is ended with all that it started when its time is up. A
wrong exit code, an answer that is no such JSON, a list of another length: the batch is halved until the design that
does it stands alone. NaN, `null` or a text in the place of one score leaves that design alone without a score. What
the program writes to standard error is told, at its end, in the message.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from aliquot.domain import Design
from aliquot.verifiers.adapters.foreign import HostingConfig, needs_of, plain, scored, shown
from aliquot.verifiers.sdk import DataFile, Needs, NoScore, PointwiseVerifier, Score, VerifierConfig

VERSION = 1
"""The one version of the answer's format that there is."""
OUTPUT_BYTES = 16 * 2**20
"""Longest answer that is read."""
TOLD = 2000
"""Characters of its last words that a message shows."""
OF_ITS_TIME = 0.9
"""Share of the batch's time after which the program is ended, so that it is told from a worker that hangs."""


class ShownFile(VerifierConfig):
    """A file or folder in a command."""

    file: DataFile


class ExternalProcessConfig(HostingConfig):
    command: tuple[str | ShownFile, ...] = Field(min_length=1)
    """The program and its arguments. `python` is the interpreter of the worker's environment; other programs are named
    by what is on the system's path, or shown as `{file: ./score.sh}`. Scripts among the arguments are shown so too."""
    reads: tuple[DataFile, ...] = ()
    """Further files or folders that it reads, under their own paths."""
    property: str = ""
    """Which list of the payload is the score; default: the only one. The others stand in `values`."""


class ExternalProcess(PointwiseVerifier):
    """The number that a program gives for a molecule, in the program's own unit."""

    name, version = "external_process", "1"
    kinds = ("molecule",)
    Config = ExternalProcessConfig

    def __init__(self, config: ExternalProcessConfig):
        super().__init__(config)
        self._command = [str(part.file) if isinstance(part, ShownFile) else part for part in config.command]
        self._command[0] = _program(self._command[0])

    @classmethod
    def needs_for(cls, config: Any) -> Needs:
        return needs_of(config, requirements=config.requirements)

    def verify(self, designs: Sequence[Design]) -> Iterable[Score | NoScore]:
        smiles = [str(design.value) for design in designs]
        if odd := [text for text in smiles if len(text.split()) != 1]:
            raise ValueError(f"{shown(odd[0])} is no SMILES that fits a line of its own")
        payload = self._payload(self._answer(smiles), len(smiles))
        name = self._scored(payload)
        for i in range(len(smiles)):
            values = {key: plain(members[i]) for key, members in payload.items() if key != name}
            yield scored(payload[name][i], self.config, name=name, values=values)

    def _answer(self, smiles: list[str]) -> str:
        """What the program writes for these.

        Raises:
            RuntimeError: it does not start, fails, writes too much, or takes too long.
        """
        seconds = OF_ITS_TIME * self.config.seconds * len(smiles)
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as files:
            given, said, told = (files.enter_context((Path(folder) / name).open("w+b")) for name in "ioe")
            given.write("".join(f"{text}\n" for text in smiles).encode())
            given.seek(0)
            work = Path(folder) / "work"
            work.mkdir()
            try:
                process = subprocess.Popen(
                    self._command, stdin=given, stdout=said, stderr=told, cwd=work, start_new_session=True
                )
            except OSError as error:
                raise RuntimeError(f"{self._command[0]} could not be started: {error}") from None
            try:
                code = process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                raise RuntimeError(f"it did not end within {seconds:g} s{_last_words(told)}") from None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if code != 0:
                how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
                raise RuntimeError(f"it {how}{_last_words(told)}")
            if os.fstat(said.fileno()).st_size > OUTPUT_BYTES:
                raise RuntimeError(f"it wrote more than {OUTPUT_BYTES // 2**20} MiB to its standard output")
            said.seek(0)
            return said.read().decode(errors="replace")

    def _payload(self, text: str, count: int) -> Mapping[str, list[Any]]:
        """The lists of an answer, by name. What is in it and no list is left out.

        Raises:
            ValueError: it is no such answer, or a list has another length.
        """
        wanted = f'{{"version": {VERSION}, "payload": {{NAME: [one number for each SMILES]}}}}'
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"its output is no JSON ({error}): {shown(text[:TOLD])}; it must be {wanted}") from None
        payload = answer.get("payload") if isinstance(answer, dict) else None
        if not isinstance(payload, dict):
            raise ValueError(f"its output has no payload: {shown(answer)}; it must be {wanted}")
        if (version := answer.get("version")) != VERSION or isinstance(version, bool):
            raise ValueError(f"its output is of version {shown(version)}; known is {VERSION}")
        lists = {key: members for key, members in payload.items() if isinstance(members, list)}
        if wrong := [key for key, members in lists.items() if len(members) != count]:
            raise ValueError(f"it gave {len(lists[wrong[0]])} {wrong[0]} for {count} SMILES")
        return lists

    def _scored(self, payload: Mapping[str, list[Any]]) -> str:
        name, there = self.config.property, ", ".join(payload) or "none"
        if name and name not in payload:
            raise ValueError(f"its payload has no list {name!r}; there is {there}")
        if not name and len(payload) != 1:
            raise ValueError(f"its payload has not one list but {there}: name the one that is the score as `property`")
        return name or next(iter(payload))


def _program(name: str) -> str:
    if name in ("python", "python3"):
        return sys.executable
    found = shutil.which(name)
    if found is None:
        raise ValueError(f"command: there is no program {name} here; show a file of your own as {{file: ./score.sh}}")
    return found


def _last_words(told: Any) -> str:
    size = os.fstat(told.fileno()).st_size
    told.seek(max(0, size - TOLD))
    text = told.read().decode(errors="replace").strip()
    return f"; its standard error ends with:\n{text}" if text else "; it wrote nothing to its standard error"

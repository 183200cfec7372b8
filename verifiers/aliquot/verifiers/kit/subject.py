"""The plugin under test, in workers of its own: opened under any configuration, asked past every cache.

Always true: it runs as a campaign would run it (the same host, the same stage, the same limits), so what is found here
is what a campaign would see. Only the waiting for slow verifiers is done here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from aliquot.domain import ConfigError, Design, Outcome, Verdict, VerdictError
from aliquot.isolation.host import Failure, Service
from aliquot.verifiers import opening
from aliquot.verifiers.cache import VerdictCache
from aliquot.verifiers.description import Description
from aliquot.verifiers.kit import corpus
from aliquot.verifiers.registry import Reference, resolve
from aliquot.verifiers.sdk import Fixture
from aliquot.verifiers.stage import Stage, Ticket, VerifierRef


class Trial:
    """One worker with the plugin in it."""

    def __init__(self, stage: Stage, service: Service, patience: float):
        self.stage, self.service, self.patience = stage, service, patience

    @property
    def said(self) -> Description:
        return self.stage.said

    def judge(self, designs: Sequence[Design], keep: bool = True) -> list[Verdict]:
        """A verdict on each, in one batch; a slow one is waited for. Memory, if it has one, goes on growing.

        Args:
            keep: False where many designs will fail and the memory does not matter: their failures then cost no worker.
        """
        answers = self.stage.ask(designs, keep)
        until = time.monotonic() + self.patience
        pulse = 0.02
        while waiting := [i for i, answer in enumerate(answers) if isinstance(answer, Ticket)]:
            said = self.stage.look([designs[i] for i in waiting], [str(answers[i]) for i in waiting])
            for i, answer in zip(waiting, said, strict=True):
                answers[i] = answer
            if time.monotonic() > until:
                pairs = zip(designs, answers, strict=True)
                return [a if isinstance(a, Verdict) else self._unanswered(d, a) for d, a in pairs]
            if any(isinstance(answer, Ticket) for answer in said):
                time.sleep(pulse)
                pulse = min(2 * pulse, 1.0)
        return [answer for answer in answers if isinstance(answer, Verdict)]

    def forget(self) -> None:
        """A fresh worker, with no memory."""
        self.service.restore(None)

    def usage(self) -> dict[str, float]:
        """`hosting.usage` of the worker, as the worker says; empty when it cannot be asked."""
        (answer,) = self.service.call("usage", [None], seconds=10)
        return {} if isinstance(answer, Failure) else answer

    def _unanswered(self, design: Design, ticket: Ticket) -> Verdict:
        message = f"{design.text}: no answer to ticket {ticket} within {self.patience:g} s"
        about = {"verifier": self.stage.name, "version": self.stage.version, "digest": self.stage.digest}
        return Verdict(**about, error=VerdictError(outcome=Outcome.TIMED_OUT, message=message))


class Subject:
    """A plugin, and what it declares.

    Args:
        target: a type, as in a campaign.
        config: the configuration to check it with; None: its own `example`, which is read off it first.
        base: folder from which paths start; default: the working directory.
        trust: run it without a sandbox.
        patience: longest time to wait for a slow verifier, seconds.

    Raises:
        ConfigError: it does not load, or the configuration is wrong.
        SandboxUnavailable: it is not trusted, and this machine cannot contain it.
    """

    def __init__(
        self,
        target: str,
        config: Mapping[str, Any] | None = None,
        *,
        base: Path | None = None,
        trust: bool = False,
        patience: float = 60.0,
    ):
        self.reference: Reference = resolve(target, base)
        self.trust, self.patience = trust, patience
        self._trials: dict[str, Trial] = {}
        folder = Path(self.reference.target.rpartition(":")[0]).parent
        self.base = (base or Path.cwd()) if config is not None else folder if self.reference.origin == "path" else None
        self._example_base = folder if self.reference.origin == "path" else None
        plain = self._introduced({} if config is None else dict(config))
        self.example = dict(plain.example)
        self.config = self.example if config is None else dict(config)
        self.said = plain if self.config == config or not self.config else self._introduced(self.config)
        if self.said.problems:
            raise _wrong(target, self.said)

    @property
    def contained(self) -> bool:
        """Whether it runs in the sandbox."""
        return not (self.trust or self.reference.trusted)

    @contextmanager
    def trial(self, changes: Mapping[str, Any] | None = None, fresh: bool = False) -> Iterator[Trial]:
        """A worker under the configuration to check with; or, with `changes`, under the `example` and these.

        A set verifier has an empty memory in it. One worker serves all checks that do not ask for a fresh one.

        Raises:
            ConfigError: such a configuration is wrong.
        """
        config = self.config if changes is None else {**self.example, **changes}
        base = self.base if changes is None else self._example_base
        key = json.dumps([config, str(base)], sort_keys=True, default=str)
        if fresh:
            trial = self._opened(config, base)
            try:
                yield trial
            finally:
                trial.service.close()
            return
        if key not in self._trials:
            self._trials[key] = self._opened(config, base)
        elif self.said.style == "set":
            self._trials[key].forget()
        yield self._trials[key]

    def close(self) -> None:
        """End its workers."""
        for trial in self._trials.values():
            trial.service.close()

    def _opened(self, config: dict[str, Any], base: Path | None) -> Trial:
        name = self.said.name
        service, (said,) = opening.open_service([(name, self.reference, config)], base, trust=self.trust)
        if said.problems:
            service.close()
            raise _wrong(self.reference.type, said)
        ref = VerifierRef(name=name, type=self.reference.type, config=config)
        return Trial(Stage(ref, said, service, VerdictCache(1)), service, self.patience)

    def fixtures(self, case: str) -> list[Fixture]:
        return [fixture for fixture in self.said.fixtures if fixture.case == case]

    @cached_property
    def known(self) -> list[Design]:
        """Designs that the author says can be judged, under the example's configuration."""
        named = [f.design for f in self.said.fixtures if f.case != "malformed" and not f.config]
        named += [control.design for control in self.said.controls]
        return list({design.key: design for design in named}.values())

    @cached_property
    def ordinary(self) -> list[Design]:
        """Ordinary designs of the kinds it judges: its own first."""
        named = [*self.known, *(design for kind in self.said.kinds for design in corpus.proper(kind))]
        return [d for d in {design.key: design for design in named}.values() if d.kind in self.said.kinds]

    def judgeable(self, count: int) -> list[Design]:
        """Ordinary designs that get a score; all of them where none does, so that a check can say why."""
        designs = self.ordinary[:count]
        with self.trial() as trial:
            verdicts = trial.judge(designs, keep=False)
        return [d for d, v in zip(designs, verdicts, strict=True) if v.error is None] or designs

    def _introduced(self, config: dict[str, Any]) -> Description:
        (said,) = opening.introduce([(self.reference.type, self.reference, config)], self.base, trust=self.trust)
        return said


def _wrong(target: str, said: Description) -> ConfigError:
    return ConfigError(
        f"verifier {target}", [(problem.path, problem.value, problem.remedy) for problem in said.problems]
    )

"""The verifiers of a campaign in order: cheap and sure ones first, dear and slow ones later, with early exit.

A design climbs stage by stage. A required stage that refuses it, fails to judge it, or has not answered yet, is where
it stops; a stage that is not required only adds its verdict. Where a design stands is read from its `Judgement` alone,
so that a judgement can be stored, and polled by another process weeks later.

Always true: built-in verifiers that are trusted share one worker process; each other one has a worker of its own.
Nothing that a verifier does raises here; it becomes a verdict with a typed error, and leaves the design undecided. What
does raise is a machine that cannot contain a verifier that is not trusted: `SandboxUnavailable`, before it has judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import JsonValue

from aliquot.domain import ConfigError, Design, Noun, Verdict
from aliquot.isolation.host import Service
from aliquot.verifiers import opening, registry
from aliquot.verifiers.cache import VerdictCache
from aliquot.verifiers.stage import Stage, Ticket, VerifierRef
from aliquot.verifiers.tally import StageReport, advice


class Judgement(Noun):
    """What the ladder has said of one design so far."""

    design: Design
    verdicts: dict[str, Verdict] = {}
    """By the verifier's name, in the order given."""
    pending: dict[str, str] = {}
    """Ticket of each slow verifier that has not answered."""
    accepted: bool | None = None
    """Whether every required stage accepts it; None: undecided, for a required stage failed or has not answered."""
    score: float | None = None
    """Mean of the scores there are, by the stages' weights, each in its own units; None: no stage of any weight has
    given one."""


class VerifierLadder:
    """Verifiers in their workers, ready to judge. A context manager; not for use by two threads at once.

    Args:
        refs: in the order in which designs visit them.
        kind: the kind of the designs to come; a verifier that cannot judge it is a configuration error.
        base: folder from which paths in `type` start; default: the working directory.
        cache: verdicts to share with other ladders; default: one of its own.

    Raises:
        ConfigError: a name stands twice, a type is unknown, a plugin does not load, or a configuration is wrong.
            Paths begin with the position in `refs`.
    """

    def __init__(
        self,
        refs: Sequence[VerifierRef],
        *,
        kind: str | None = None,
        base: Path | None = None,
        cache: VerdictCache | None = None,
    ):
        self.cache = cache if cache is not None else VerdictCache()
        self._services: list[Service] = []
        self._memories: list[tuple[Service, list[str]]] = []
        try:
            self.stages = self._build(refs, kind, base)
        except BaseException:
            self.close()
            raise

    def verify(self, designs: Sequence[Design]) -> list[Judgement]:
        """One judgement for each design, in order."""
        return self._climb([Judgement(design=design) for design in designs])

    def poll(self, judgements: Sequence[Judgement]) -> list[Judgement]:
        """Ask slow verifiers about their tickets, and let designs that they release climb on."""
        board = list(judgements)
        for stage in self.stages:
            here = [i for i, judgement in enumerate(board) if stage.name in judgement.pending]
            if not here:
                continue
            answers = stage.poll([board[i].design for i in here], [board[i].pending[stage.name] for i in here])
            for i, answer in zip(here, answers, strict=True):
                board[i] = _noted(board[i], stage, answer)
        return self._climb(board)

    def reports(self) -> list[StageReport]:
        """How each stage went so far: designs, refusals, seconds, money."""
        return [stage.report() for stage in self.stages]

    def advice(self) -> list[str]:
        """Orders of the stages that would cost less, in words."""
        return advice(self.reports())

    def state(self) -> dict[str, JsonValue]:
        """The memories of the set verifiers by name, as JSON values, for the campaign to save."""
        memories: dict[str, JsonValue] = {}
        for service, names in self._memories:
            held = service.memory or {}
            memories.update({name: held[name] for name in names if name in held})
        return memories

    def restore(self, state: dict[str, JsonValue]) -> None:
        """Take the memories that `state` gave. Names that the ladder does not have are passed over."""
        for service, names in self._memories:
            service.restore({name: state[name] for name in names if name in state})

    @contextmanager
    def forgetting(self, stage: Stage) -> Iterator[None]:
        """What a set verifier is asked within starts from an empty memory, and is forgotten afterwards.

        Its worker is replaced twice; the verifiers that share it keep their memories.
        """
        service = next(service for service, names in self._memories if stage.name in names)
        held = service.memory
        others = {name: memory for name, memory in (held or {}).items() if name != stage.name}
        service.restore(others)
        try:
            yield
        finally:
            service.restore(held)

    def close(self) -> None:
        """End the workers."""
        for service in self._services:
            service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _climb(self, judgements: list[Judgement]) -> list[Judgement]:
        board = list(judgements)
        for stage in self.stages:
            here = [i for i, judgement in enumerate(board) if self._next(judgement) is stage]
            if here:
                for i, answer in zip(here, stage.judge([board[i].design for i in here]), strict=True):
                    board[i] = _noted(board[i], stage, answer)
        return [j.model_copy(update={"accepted": self._accepted(j), "score": self._score(j)}) for j in board]

    def _next(self, judgement: Judgement) -> Stage | None:
        """The stage that a design visits next, or None where it stops."""
        for stage in self.stages:
            verdict = judgement.verdicts.get(stage.name)
            if verdict is None and stage.name not in judgement.pending:
                return stage
            if stage.required and (verdict is None or not verdict.accepted):
                return None
        return None

    def _accepted(self, judgement: Judgement) -> bool | None:
        opinions = [
            verdict.accepted if (verdict := judgement.verdicts.get(stage.name)) else None
            for stage in self.stages
            if stage.required
        ]
        return False if False in opinions else None if None in opinions else True

    def _score(self, judgement: Judgement) -> float | None:
        pairs = [
            (stage.weight, verdict.score)
            for stage in self.stages
            if (verdict := judgement.verdicts.get(stage.name)) and verdict.score is not None and stage.weight > 0
        ]
        return sum(w * score for w, score in pairs) / sum(w for w, _ in pairs) if pairs else None

    def _build(self, refs: Sequence[VerifierRef], kind: str | None, base: Path | None) -> list[Stage]:
        names = [ref.name for ref in refs]
        if twice := [i for i, name in enumerate(names) if name in names[:i]]:
            remedy = "each verifier needs a name of its own"
            raise ConfigError("verifiers", [(f"{i}.name", names[i], remedy) for i in twice])
        references = []
        for i, ref in enumerate(refs):
            with _placed(i):
                references.append(registry.resolve(ref.type, base))
        ours = [i for i, reference in enumerate(references) if reference.origin == "builtin" and reference.trusted]
        groups = [*([ours] if ours else []), *([i] for i in range(len(refs)) if i not in ours)]
        stages: dict[int, Stage] = {}
        problems: list[tuple[str, object, str]] = []
        for group in groups:
            with _placed(group[0]):
                service, said = opening.open_service([(names[i], references[i], refs[i].config) for i in group], base)
            self._services.append(service)
            for i, description in zip(group, said, strict=True):
                problems += [(f"{i}.{problem.path}", problem.value, problem.remedy) for problem in description.problems]
                stages[i] = Stage(refs[i], description, service, self.cache)
                if kind is not None and kind not in stages[i].kinds:
                    remedy = f"judges {' and '.join(stages[i].kinds)} only; the campaign designs {kind}"
                    problems.append((f"{i}.type", refs[i].type, remedy))
            if sets := [names[i] for i in group if stages[i].style == "set"]:
                self._memories.append((service, sets))
        if problems:
            raise ConfigError("verifiers", sorted(problems, key=lambda problem: problem[0]))
        return [stages[i] for i in range(len(refs))]


@contextmanager
def _placed(position: int) -> Iterator[None]:
    """Puts the verifier's position before the paths of a `ConfigError`."""
    try:
        yield
    except ConfigError as error:
        problems = [(f"{position}.{path}", value, remedy) for path, value, remedy in error.problems]
        raise ConfigError("verifiers", problems) from None


def _noted(judgement: Judgement, stage: Stage, answer: Verdict | Ticket) -> Judgement:
    """The judgement with one more verdict, or with its ticket."""
    pending = {name: ticket for name, ticket in judgement.pending.items() if name != stage.name}
    if isinstance(answer, Ticket):
        return judgement.model_copy(update={"pending": {**pending, stage.name: str(answer)}})
    return judgement.model_copy(update={"pending": pending, "verdicts": {**judgement.verdicts, stage.name: answer}})

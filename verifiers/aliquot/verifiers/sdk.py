"""What a plugin author writes: one class, one pydantic config, one method.

    class LogP(PointwiseVerifier):
        name, version = "logp", "1"

        class Config(VerifierConfig):
            maximum: float = 5.0

        def verify(self, designs):
            for design in designs:
                value = crippen(design.value)
                yield Score(value, accepted=value <= self.config.maximum, reason="" if ... else "logP above maximum")

or, where one design needs nothing of the others, one function:

    @verifier(name="length", version="1", kinds=("sequence",))
    def length(design):
        return float(len(design.value))

A plugin that needs libraries of its own names them in the block of comments that PEP 723 defines, or in the
`dependencies` of its pyproject.toml; it then gets an environment of its own.

Three kinds, told apart by what they may remember:

* `PointwiseVerifier` judges each design by itself: batch = one by one, in any order; its verdicts may be cached.
* `SetVerifier` judges a design against those seen before (novelty, diversity). It has a memory, which the campaign
  saves and restores, and is never cached.
* `SlowVerifier` answers later (docking, quantum chemistry): `submit` returns tickets, `poll` says what is ready.

Whatever goes wrong in an author's code becomes a typed error of the item that did it, never a score. What a verifier
declares of itself (`bounds`, `fixtures`, `controls`) is held against it by `aliquot plugin check`, and its controls by
every campaign that uses it.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field

from aliquot.domain import Design, Noun


class VerifierConfig(BaseModel):
    """Base of a verifier's own configuration: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class ShownToPlugin:
    """Marks a field of a config as a path that the worker may read."""


DataFile = Annotated[Path, ShownToPlugin()]
"""For a field of a config: a file or folder of the user's, which the sandbox shows to the plugin, read-only, under the
same path. A relative path starts at the campaign's folder. Whatever the config does not name stays out of sight."""


class Needs(BaseModel):
    """What a verifier needs of its worker process. What is not asked for is not there."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    memory_mb: int = Field(default=2048, ge=64)
    """Memory of one worker, MiB."""
    seconds: float = Field(default=10.0, gt=0)
    """Longest time one design may take, in seconds."""
    startup_seconds: float = Field(default=60.0, gt=0)
    """Longest time the import and `__init__` may take, in seconds."""
    processes: int = Field(default=64, ge=1, le=4096)
    """Processes and threads it may have at once."""
    scratch_mb: int = Field(default=64, ge=1)
    """Room for files of its own, MiB; it is empty at each start."""
    network: tuple[str, ...] = ()
    """Hosts it may reach, "host" or "host:port"; none by default."""
    gpu: bool = False
    """Whether it uses an accelerator."""
    requirements: tuple[str, ...] = ()
    """Pins of an environment of its own, where they depend on the configuration of an adapter. A plugin names its pins
    in its own file or pyproject.toml, for they are needed before anything of it is imported."""


@dataclass(frozen=True)
class Score:
    """What an author returns for one design."""

    score: float
    """In the verifier's own units; must be finite."""
    accepted: bool = True
    reason: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Further named results (JSON values)."""
    of: Design | str | None = None
    """The design (or its key) that this is the score of. When it is said, it is checked: a score that came in the
    place of another design's becomes an error of that item."""


@dataclass(frozen=True)
class NoScore:
    """What an author returns for one design of which nothing can be said: missing, never zero.

    An exception says the same of a whole batch, which is then halved until the item that does it stands alone. Where
    the cause is known to be one item's, or to be no item's at all (a server that is down), this spares the halving.
    """

    reason: str
    """What happened, for whoever runs the campaign."""
    timed_out: bool = False
    of: Design | str | None = None
    """As in `Score`."""


class Expectation(Noun):
    """One design, and what the verifier must say of it."""

    design: Design
    at_least: float | None = None
    """Lowest score that is right; None: no bound."""
    at_most: float | None = None
    accepted: bool | None = None
    """Whether it must be accepted; None: either."""

    @classmethod
    def _of(cls, kind: str, value: str | dict[str, Any], **rest: Any) -> Any:
        return cls(design=Design(kind=kind, value=value), **rest)

    def breach(self, score: float, accepted: bool, slack: float = 1e-9) -> str:
        """What is wrong with this answer, or an empty text."""
        if self.at_least is not None and score < self.at_least - slack:
            return f"scored {score:g}; at least {self.at_least:g} is right"
        if self.at_most is not None and score > self.at_most + slack:
            return f"scored {score:g}; at most {self.at_most:g} is right"
        if self.accepted is not None and accepted is not self.accepted:
            return (
                f"was {'accepted' if accepted else 'refused'}; it must be {'accepted' if self.accepted else 'refused'}"
            )
        return ""


class Control(Expectation):
    """A design whose score is known, judged before every campaign and again while it runs.

    An oracle that has lost its model, its licence or its server often goes on answering, with 0.0 for everything. A
    positive control (`at_least`) and a negative one (`at_most`) tell.
    """

    @classmethod
    def of(cls, kind: str, value: str | dict[str, Any], **expected: Any) -> Control:
        """`Control.of("molecule", "CCO", at_least=0.4)`."""
        return cls._of(kind, value, **expected)


class Fixture(Expectation):
    """A case that `aliquot plugin check` runs."""

    case: Literal["full", "zero", "malformed", "seeded"]
    """full: the best that can be had; zero: the worst; malformed: no proper design, which must be refused or be an
    error that names it; seeded: gives exactly the same score in two workers started apart."""
    config: dict[str, Any] = {}
    """Changes to the verifier's `example` configuration for this case."""
    after: tuple[Design, ...] = ()
    """What a set verifier has judged before this design; it starts from an empty memory."""
    answer: str = ""
    """What must not be readable in `reason` or `values`, where the design is judged against a hidden answer."""

    @classmethod
    def full(cls, kind: str, value: str | dict[str, Any], at_least: float, **rest: Any) -> Fixture:
        return cls._of(kind, value, case="full", at_least=at_least, **rest)

    @classmethod
    def zero(cls, kind: str, value: str | dict[str, Any], at_most: float, **rest: Any) -> Fixture:
        return cls._of(kind, value, case="zero", at_most=at_most, **rest)

    @classmethod
    def malformed(cls, kind: str, value: str | dict[str, Any], **rest: Any) -> Fixture:
        return cls._of(kind, value, case="malformed", **rest)

    @classmethod
    def seeded(cls, kind: str, value: str | dict[str, Any], **rest: Any) -> Fixture:
        return cls._of(kind, value, case="seeded", **rest)


class Verifier(ABC):
    """What every verifier declares."""

    name: ClassVar[str]
    version: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]] = ("molecule", "conditions", "sequence")
    """Design kinds it can judge."""
    deterministic: ClassVar[bool] = True
    cost: ClassVar[float] = 0.0
    """Money per design, in the campaign's currency."""
    needs: ClassVar[Needs] = Needs()
    Config: ClassVar[type[VerifierConfig]] = VerifierConfig

    unit: ClassVar[str] = ""
    """Unit of the score; empty: a pure number."""
    bounds: ClassVar[tuple[float | None, float | None]] = (None, None)
    """Lowest and highest score that it can give; None: there is no such bound."""
    example: ClassVar[Mapping[str, Any]] = {}
    """A configuration to check it with, where the defaults alone are not enough."""
    fixtures: ClassVar[Sequence[Fixture]] = ()
    controls: ClassVar[Sequence[Control]] = ()

    secrets: Mapping[str, str] = MappingProxyType({})
    """What only its worker is told, by name; filled after `__init__`, for adapters alone. It stands in no verdict."""

    def __init__(self, config: VerifierConfig):
        self.config: Any = config

    @classmethod
    def needs_for(cls, config: Any) -> Needs:
        """Needs under this configuration, where they depend on it; default: `needs`."""
        return cls.needs

    @classmethod
    def controls_for(cls, config: Any) -> Sequence[Control]:
        """Controls under this configuration, where they depend on it; default: `controls`."""
        return cls.controls


class PointwiseVerifier(Verifier):
    """Judges each design by itself."""

    @abstractmethod
    def verify(self, designs: Sequence[Design]) -> Iterable[Score | NoScore]:
        """One `Score` for each design, in order."""


class SetVerifier(Verifier):
    """Judges designs against a memory of those seen before."""

    deterministic: ClassVar[bool] = True

    @abstractmethod
    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        """One `Score` for each design, in order; the memory grows as it goes."""

    @abstractmethod
    def state(self) -> Any:
        """The memory as a JSON value, for the campaign to save."""

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Take a memory that `state` gave."""


class SlowVerifier(Verifier):
    """Judges later. Both calls return quickly."""

    @abstractmethod
    def submit(self, designs: Sequence[Design]) -> Sequence[str | NoScore]:
        """A ticket for each design; the same design may get the same ticket."""

    @abstractmethod
    def poll(self, tickets: Sequence[str]) -> Mapping[str, Score | NoScore]:
        """Scores of those tickets that are ready; the others are left out."""


def verifier(*, name: str, version: str, **declared: Any) -> Callable[[Callable[..., Any]], type[PointwiseVerifier]]:
    """Make a verifier of a function of one design: `f(design)` or `f(design, config)`, returning a number or a `Score`.

    The class of the config is read from the annotation of the second parameter. The function stays reachable as
    `f.function`, for tests.

    Args:
        declared: whatever a class would declare: `kinds`, `needs`, `bounds`, `fixtures`, `controls`, …

    Raises:
        TypeError: the function has other parameters, a name is not one that a verifier declares, or the second
            parameter has no annotation that is a `VerifierConfig`.
    """
    known = {key for key in Verifier.__annotations__ if key not in ("name", "version")}
    if unknown := sorted(declared.keys() - known):
        raise TypeError(f"@verifier knows no {', '.join(unknown)}; it takes {', '.join(sorted(known))}")

    def wrap(function: Callable[..., Any]) -> type[PointwiseVerifier]:
        parameters = list(inspect.signature(function).parameters)
        if len(parameters) not in (1, 2):
            raise TypeError(
                f"{function.__name__} takes {len(parameters)} parameters; write f(design) or f(design, config)"
            )
        if len(parameters) == 2 and "Config" not in declared:
            declared["Config"] = _config_of(function, parameters[1])

        def verify(self: PointwiseVerifier, designs: Sequence[Design]) -> Iterable[Any]:
            for design in designs:
                said = function(design, self.config) if len(parameters) == 2 else function(design)
                yield said if isinstance(said, Score) else Score(said)

        body = {"__doc__": function.__doc__, "__module__": function.__module__, "__qualname__": function.__qualname__}
        members = {**body, **declared, "name": name, "version": version, "verify": verify}
        return type(function.__name__, (PointwiseVerifier,), {**members, "function": staticmethod(function)})

    return wrap


def _config_of(function: Callable[..., Any], parameter: str) -> type[VerifierConfig]:
    hint: Any = inspect.signature(function).parameters[parameter].annotation
    if isinstance(hint, str):  # annotations as text, `from __future__ import annotations`
        try:
            hint = get_type_hints(function).get(parameter)
        except NameError:
            hint = None
    if not (inspect.isclass(hint) and issubclass(hint, VerifierConfig)):
        raise TypeError(f"annotate {parameter!r} of {function.__name__} with its class, derived from VerifierConfig")
    return hint

"""What a hosted plugin is allowed, and the refusal when that cannot be enforced.

Always true: code that is not trusted runs contained or not at all. `SandboxUnavailable` is raised before any of it has
run; it says nothing of a design, and never becomes a verdict.
"""

from __future__ import annotations

from dataclasses import dataclass

from aliquot.domain.errors import AliquotError


@dataclass(frozen=True)
class Containment:
    """How one service is held. The default is for a stranger's code: it sees nothing but itself."""

    trusted: bool = False
    """The project's own code: a separate process under limits, without namespaces."""
    python: str | None = None
    """Interpreter of the plugin's own environment, which must hold msgspec, pydantic and numpy; None: ours."""
    read_only: tuple[str, ...] = ()
    """Files and folders that the worker may read, beyond its interpreter, its packages and the file of its target."""
    network: tuple[str, ...] = ()
    """Hosts that it may reach through our proxy, `host` (ports 80 and 443) or `host:port`; empty: none at all."""
    gpu: bool = False
    """Whether it may use the machine's GPUs. Its address space is then not limited, for drivers reserve a lot."""


TRUSTED = Containment(trusted=True)


class SandboxUnavailable(AliquotError):
    """This machine cannot contain a stranger's code: what could not be proven, each with its remedy."""

    def __init__(self, reasons: tuple[str, ...]):
        self.reasons = reasons
        super().__init__("untrusted code is refused here:\n  " + "\n  ".join(reasons))

"""What the operator of a machine decides about the sandbox: environment variables, read here and nowhere else.

| variable | meaning | default |
| --- | --- | --- |
| `ALIQUOT_SANDBOX` | `bwrap`, or `runsc` for gVisor | `bwrap` |
| `ALIQUOT_SANDBOX_PLATFORM` | gVisor only: `systrap`, `ptrace` or `kvm` | its own choice |
| `ALIQUOT_SANDBOX_PROGRAM` | path of that program | found on PATH |
| `ALIQUOT_SANDBOX_UIDS` | root only: user ids for the workers, `first-last`, one per worker at a time | `60600-61111` |
| `ALIQUOT_SANDBOX_WITHOUT` | second walls that may be missing: `memory`, `landlock` | none |
| `ALIQUOT_SANDBOX_CGROUPS` | delegated control group folders, colon-separated | our own group's |
| `ALIQUOT_SANDBOX_PYTHONS` | base interpreters of plugin environments, folders, colon-separated | ours, /usr |
| `ALIQUOT_SANDBOX_PRIVATE` | private networks that allow-lists may reach, `10.1.2.0/24,…` | none |

The user ids should belong to nobody: the default lies in the range that neither Debian nor systemd hands out.
`memory` missing means that a watchdog of ours, not the kernel, ends a worker that takes too much.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from aliquot.isolation.containment import SandboxUnavailable

SECOND_WALLS = ("memory", "landlock")
"""Controls that an operator may do without; each has another one behind it."""
TIERS = ("bwrap", "runsc")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class Settings:
    """The operator's decisions."""

    tier: str = "bwrap"
    program: str | None = None
    """Path of the sandbox's program; None: it is not installed."""
    platform: str = ""
    uids: range = range(60600, 61112)
    without: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()
    private: tuple[Network, ...] = ()


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings of this process.

    Raises:
        SandboxUnavailable: a value makes no sense; nothing is guessed.
    """
    get = (os.environ if environment is None else environment).get
    tier = get("ALIQUOT_SANDBOX", "bwrap")
    if tier not in TIERS:
        raise _wrong("ALIQUOT_SANDBOX", tier, f"use one of {', '.join(TIERS)}")
    without = tuple(filter(None, get("ALIQUOT_SANDBOX_WITHOUT", "").split(",")))
    if unknown := [name for name in without if name not in SECOND_WALLS]:
        raise _wrong("ALIQUOT_SANDBOX_WITHOUT", unknown[0], f"only {', '.join(SECOND_WALLS)} can be done without")
    uids = get("ALIQUOT_SANDBOX_UIDS", "60600-61111")
    try:
        first, _, last = uids.partition("-")
        slots = range(int(first), int(last or first) + 1)
        if not slots or slots[0] < 1:
            raise ValueError
    except ValueError:
        raise _wrong("ALIQUOT_SANDBOX_UIDS", uids, "write first-last, both above 0") from None
    try:
        private = tuple(map(ipaddress.ip_network, filter(None, get("ALIQUOT_SANDBOX_PRIVATE", "").split(","))))
    except ValueError as error:
        raise _wrong("ALIQUOT_SANDBOX_PRIVATE", get("ALIQUOT_SANDBOX_PRIVATE"), str(error)) from None
    named = get("ALIQUOT_SANDBOX_PROGRAM")
    return Settings(
        tier=tier,
        program=(named if os.access(named, os.X_OK) else None) if named else shutil.which(tier),
        platform=get("ALIQUOT_SANDBOX_PLATFORM", ""),
        uids=slots,
        without=without,
        groups=tuple(filter(None, get("ALIQUOT_SANDBOX_CGROUPS", "").split(":"))),
        pythons=tuple(filter(None, get("ALIQUOT_SANDBOX_PYTHONS", "").split(":"))),
        private=private,
    )


def _wrong(variable: str, value: object, remedy: str) -> SandboxUnavailable:
    return SandboxUnavailable((f"the environment variable {variable} says {value!r}: {remedy}",))

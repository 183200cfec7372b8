"""One user id for each contained worker of a root supervisor, on the whole machine.

Always true: no two live workers share a user id, whoever started them: the kernel counts processes per user, and lets a
user signal and look into all processes of its own. A slot is a locked file; the lock goes with the supervisor, even
when it is killed. An id that belongs to an account, or to a process that still runs, is passed over.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
from pathlib import Path

from aliquot.isolation.containment import SandboxUnavailable

FOLDER = Path("/run/aliquot-sandbox")
"""Lock files, one per user id; only root can enter."""


class Slot:
    """A user id that is ours until `release`."""

    def __init__(self, uid: int, lock: int):
        self.uid, self._lock = uid, lock

    def release(self) -> None:
        os.close(self._lock)


def take_slot(uids: range, folder: Path = FOLDER) -> Slot:
    """The first free user id of the range.

    Raises:
        SandboxUnavailable: all are taken.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    busy = _uids_in_use()
    for uid in uids:
        if uid in busy or _has_account(uid):
            continue
        lock = os.open(folder / str(uid), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return Slot(uid, lock)
        except BlockingIOError:
            os.close(lock)
    raise SandboxUnavailable((f"all user ids {uids[0]}-{uids[-1]} are taken; widen ALIQUOT_SANDBOX_UIDS",))


def _uids_in_use() -> set[int]:
    found = set()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                found.add(entry.stat().st_uid)
    return found


def _has_account(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True

"""The trainer's own process: `python -m aliquot.trainer.worker FOLDER LEDGER CAMPAIGN`.

It follows the ledger until it is told to stop (SIGTERM, or end of file on standard input, which also says that its
parent is gone), then saves a checkpoint. The line `finish` on standard input makes it learn what is due, account for
the rest, and end.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path

import torch

from aliquot.ledger import Ledger
from aliquot.trainer.loop import Trainer

IDLE_SECONDS = 0.02


def main(folder: str, ledger_path: str, campaign_id: str) -> None:
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    signal.signal(signal.SIGTERM, lambda *_: os.close(sys.stdin.fileno()))
    ledger = Ledger(Path(ledger_path))
    trainer = Trainer(ledger, Path(folder), int(campaign_id))
    print("ready", flush=True)
    while True:
        busy = trainer.step() is not None
        order = _order(0.0 if busy else IDLE_SECONDS)
        if order == "finish":
            trainer.finish()
            break
        if order == "stop":
            trainer.save()
            break
    trainer.close()
    ledger.close()


def _order(wait: float) -> str | None:
    """`finish`, `stop`, or None when nothing was said within `wait` seconds."""
    try:
        readable, _, _ = select.select([sys.stdin], [], [], wait)
        return (sys.stdin.readline().strip() or "stop") if readable else None
    except (OSError, ValueError):
        return "stop"


if __name__ == "__main__":
    main(*sys.argv[1:])

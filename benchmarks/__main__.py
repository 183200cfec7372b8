"""`python -m benchmarks NAME [--full] [--json]`: run one benchmark; exit 1 when a goal is missed."""

from __future__ import annotations

import argparse
import importlib
import json
import sys

import torch

NAMES = (
    "corrections", "delayed_learning", "learning", "main_job", "mismatch", "monitors", "priors", "revisions", "sandbox",
    "train_step",
)  # fmt: skip


def main() -> int:
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--full", action="store_true", help="at full size, not the quick one")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    arguments = parser.parse_args()
    say = (lambda text: print(text, file=sys.stderr, flush=True)) if arguments.json else print
    report = importlib.import_module(f"benchmarks.{arguments.name}").run(full=arguments.full, say=say).as_json()
    if arguments.json:
        print(json.dumps(report, indent=2))
    else:
        for name, value in report["metrics"].items():
            print(f"{name:48} {value:12.4f}")
        for goal in report["goals"]:
            word = "met" if goal["met"] else "MISSED"
            print(f"{word}: {goal['metric']} = {goal['value']:.4f} (wanted {goal['op']} {goal['goal']})")
    return 0 if all(goal["met"] for goal in report["goals"]) else 1


if __name__ == "__main__":
    sys.exit(main())

"""The progress view says what a person waits for, on a terminal and without one."""

from __future__ import annotations

import io

from rich.console import Console

from aliquot.campaigns.progress import Best, BudgetLine, ExperimentCounts, Progress, ProposalCounts
from aliquot.cli.view import ProgressView, line


def example(state: str = "running") -> Progress:
    return Progress(
        name="kinase",
        state=state,
        reason="",
        lab_time=1_767_225_600.0 + 86_400 * 2.5,
        elapsed_seconds=86_400 * 2.5,
        experiments=ExperimentCounts(budget=300, waiting=0, out=24, partly_back=9, back=79, failed=3, given_up=1),
        best=Best(value=0.8125, uncertainty=0.03, design="CCO", experiment=41),
        budget=(BudgetLine(unit="experiments", limit=300, reserved=33, spent=83),),
        policy_version=14,
        trainer_step=70,
        backlog=120,
        dispositions={"fresh": 310, "moderate": 55, "old": 3, "ancient": 0, "unused": 12},
        proposals=ProposalCounts(total=960, invalid=31, refused=200, selected=116),
        metrics={},
    )


def test_one_line_holds_what_is_out_partial_back_best_budget_policy_and_ages():
    text = line(example())
    for part in (
        "day 2.5", "out 24", "partly back 9", "back 79 of 300", "failed 3", "given up 1", "0.812", "experiment 41",
        "experiments 116 of 300", "version 14", "step 70", "fresh 310", "moderate 55", "old 3", "ancient 0",
    ):  # fmt: skip
        assert part in text, part


def test_nothing_measured_yet_is_said_in_words():
    assert "none yet" in line(example().model_copy(update={"best": None, "policy_version": None}))


def test_without_a_terminal_lines_are_rare_but_the_last_one_comes():
    out = io.StringIO()
    with ProgressView(Console(file=out), quiet=False) as view:
        for _ in range(50):
            view(example())
        view(example("completed"))
        view(example("completed"))
    assert out.getvalue().count("day 2.5") == 2


def test_on_a_terminal_the_panel_shows_the_best_design():
    out = io.StringIO()
    with ProgressView(Console(file=out, force_terminal=True, width=120), quiet=False) as view:
        view(example())
    assert "CCO" in out.getvalue() and "partly back 9" in out.getvalue()


def test_quiet_shows_no_progress():
    out = io.StringIO()
    with ProgressView(Console(file=out), quiet=True) as view:
        view(example("completed"))
    assert out.getvalue() == ""

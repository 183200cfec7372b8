"""Verifiers that answer later: a ticket says when, so that a worker that was replaced still knows it."""

import time

from aliquot.verifiers.sdk import Score, SlowVerifier


class Docking(SlowVerifier):
    """Answers after a moment; refuses what begins with T."""

    name, version = "docking", "1"
    after = 0.3

    def submit(self, designs):
        return [f"{time.time() + self.after} {design.text}" for design in designs]

    def poll(self, tickets):
        said = (ticket.split(" ", 1) for ticket in tickets)
        return {
            ticket: Score(float(len(text)), accepted=not text.startswith("T"), reason="begins with T")
            for ticket, (due, text) in zip(tickets, said, strict=True)
            if time.time() >= float(due)
        }


class Silent(Docking):
    """Never answers."""

    name = "silent"
    after = 1e9

"""A laboratory on the campaign's clock: queued, late, in parts, noisy, revised, failed or silent, all from one seed.

What is always true: the same key twice is one execution; a delivery, once sent, is never changed; the history of an
execution is a function of (configuration, design, key) and of when its slot came free; the first terminal fact wins.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Sequence
from typing import ClassVar

from aliquot.clock import Clock
from aliquot.domain import Design, InvalidDesign, Measurement, Outcome, Quality
from aliquot.lab_adapters.sdk import (
    Assay,
    Capabilities,
    Delivery,
    Health,
    LabAdapter,
    LabConfig,
    LabDescription,
    LabError,
    LabRefused,
    LabStatus,
    Page,
    Quote,
    Submission,
)
from aliquot.lab_adapters.simulated.config import SimulatedAssay, SimulatedLabConfig
from aliquot.lab_adapters.simulated.execution import draw
from aliquot.lab_adapters.simulated.store import Store, status_of

TERMINAL = (LabStatus.DONE, LabStatus.FAILED, LabStatus.CANCELLED)


class SimulatedLab(LabAdapter):
    """See `SimulatedLabConfig`. With a `path`, a new object on the same file is the same lab."""

    name: ClassVar[str] = "simulated"
    version: ClassVar[str] = "1"
    Config: ClassVar[type[LabConfig]] = SimulatedLabConfig

    def __init__(self, config: SimulatedLabConfig, clock: Clock):
        super().__init__(config, clock)
        self._assays = {assay.name: assay for assay in config.assays}
        self._store = Store(config.path, config.capacity)

    def describe(self) -> LabDescription:
        assays = [
            Assay(
                name=assay.name,
                unit=assay.unit,
                description=assay.description,
                replicates=assay.replicates,
                typical_hours=assay.latency.median_hours,
            )
            for assay in self.config.assays
        ]
        capabilities = Capabilities(
            idempotent_submit=True,
            lookup=True,
            cancel=True,
            partial_results=True,
            revisions=any(assay.revision > 0 for assay in self.config.assays),
        )
        return LabDescription(
            name=self.name,
            assays=tuple(assays),
            kinds=self.config.kinds,
            capacity=self.config.capacity,
            capabilities=capabilities,
        )

    def quote(self, design: Design, assays: Sequence[str]) -> Quote:
        """Money of all its assays, and the median hours of the slowest; queueing is not counted.

        Raises:
            LabRefused: as `submit`.
        """
        self._truth(design, assays)
        wanted = self._wanted(assays)
        return Quote(money=sum(a.cost for a in wanted), hours=max(a.latency.median_hours for a in wanted))

    def submit(self, submission: Submission) -> None:
        """Start or queue it.

        Raises:
            LabRefused: an assay the lab does not have, a design it cannot take, or a key that was used for another.
        """
        truth = self._truth(submission.design, submission.assays)
        with self._store.transaction() as connection:
            known = self._store.find(connection, submission.key)
            if known is None:
                execution = draw(self.config, submission, truth)
                self._store.add(connection, submission, execution, self.clock.now())
            elif known["design"] != submission.design.key or set(json.loads(known["assays"])) != set(submission.assays):
                raise LabRefused(
                    f"key {submission.key} was used for another experiment; each attempt needs its own key"
                )

    def status(self, key: str) -> LabStatus:
        return self.reconcile([key])[key]

    def results(self, since: str) -> Page:
        found = self._store.deliveries(_position(since), self.clock.now())
        cursor = f"{found[-1]['sent_at']!r}:{found[-1]['number']}" if found else since
        return Page(deliveries=tuple(_delivery(row) for row in found), cursor=cursor)

    def cancel(self, key: str) -> LabStatus:
        now = self.clock.now()
        with self._store.transaction() as connection:
            status = status_of(self._store.find(connection, key), now)
            if status is LabStatus.UNKNOWN or status in TERMINAL:
                return status
            self._store.cancel(connection, key, now)
        return LabStatus.CANCELLED

    def reconcile(self, keys: Sequence[str]) -> dict[str, LabStatus]:
        now = self.clock.now()
        with self._store.transaction() as connection:
            return {key: status_of(self._store.find(connection, key), now) for key in keys}

    def health(self) -> Health:
        try:
            self._store.next_delivery_at(self.clock.now())
        except LabError as error:
            return Health(ok=False, message=str(error))
        return Health(ok=True)

    def next_event_at(self) -> float | None:
        """Unix seconds of the first delivery after now, or None when nothing more will come by itself."""
        return self._store.next_delivery_at(self.clock.now())

    def close(self) -> None:
        self._store.close()

    def true_value(self, design: Design) -> dict[str, float]:
        """Noise-free value of every assay, in its unit. For benchmarks only: no campaign may look at it.

        Raises:
            LabRefused: as `submit`.
        """
        return self._truth(design, tuple(self._assays))

    def _wanted(self, assays: Sequence[str]) -> list[SimulatedAssay]:
        if not assays or (unknown := sorted(set(assays) - set(self._assays))):
            asked = ", ".join(unknown) if assays else "none"
            raise LabRefused(f"assays asked for: {asked}; this lab has {', '.join(self._assays)}")
        return [self._assays[name] for name in assays]

    def _truth(self, design: Design, assays: Sequence[str]) -> dict[str, float]:
        wanted = self._wanted(assays)
        if design.kind not in self.config.kinds:
            raise LabRefused(f"this lab takes {', '.join(self.config.kinds)}, not {design.kind}")
        try:
            return {assay.name: assay.truth.value(design) for assay in wanted}
        except InvalidDesign as error:
            raise LabRefused(f"the lab cannot make {design.text}: {error}") from error


def _delivery(row: sqlite3.Row) -> Delivery:
    measurements: tuple[Measurement, ...] = ()
    if row["assay"] is not None:
        measurement = Measurement(
            assay=row["assay"],
            replicate=row["replicate"],
            revision=row["revision"],
            value=row["value"],
            unit=row["unit"],
            standard_error=row["standard_error"],
            quality=Quality.FAILED if row["value"] is None else Quality.GOOD,
            measured_at=row["sent_at"],
        )
        measurements = (measurement,)
    return Delivery(
        delivery_id=f"{row['key']}/{row['name']}",
        key=row["key"],
        measurements=measurements,
        outcome=None if row["outcome"] is None else Outcome(row["outcome"]),
        sent_at=row["sent_at"],
    )


def _position(cursor: str) -> tuple[float, int]:
    """The (sent_at, number) that a cursor stands for.

    Raises:
        LabError: not a cursor of this lab.
    """
    if not cursor:
        return (-math.inf, 0)
    moment, _, number = cursor.partition(":")
    try:
        return (float(moment), int(number))
    except ValueError:
        raise LabError(f"{cursor!r} is not a cursor of this lab; take it from `Page.cursor`, or '' to begin") from None

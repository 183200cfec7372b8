"""A remote verifier that answers at once: `http`. The exchange is described in `http_common`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aliquot.domain import Design
from aliquot.verifiers.adapters.http_common import (
    OF_ITS_TIME,
    Asking,
    HttpConfig,
    judged,
    network_needs,
    remote_of,
    verdicts_in,
    without,
)
from aliquot.verifiers.adapters.http_exchange import RemoteFailed
from aliquot.verifiers.sdk import Needs, NoScore, PointwiseVerifier, Score


class HttpBatch(PointwiseVerifier):
    """The score that a server gives, in the server's unit. A server that answers later is asked through `http_job`.

    A status of 400, 413 or 422 may be one design's doing: the batch is halved until it stands alone. Any other
    failure leaves all of the batch without a score at once.
    """

    name, version = "http", "1"
    deterministic = False  # what a server says may change, so it is asked each time
    Config = HttpConfig

    @classmethod
    def needs_for(cls, config: Any) -> Needs:
        return network_needs(config)

    def verify(self, designs: Sequence[Design]) -> Iterable[Score | NoScore]:
        remote = remote_of(self.config, self.secrets)
        for first in range(0, len(designs), self.config.batch):
            asked = designs[first : first + self.config.batch]
            asking = Asking(asked)
            try:
                answer = remote.post(self.config.url, asking.body, OF_ITS_TIME * self.config.seconds * len(asked))
                if answer.status == 202:
                    raise RemoteFailed("it answered 202, later; use the verifier `http_job` for it")
                found = verdicts_in(answer.body, asking.ids)
            except RemoteFailed as failed:
                if failed.about_items and len(designs) > 1:
                    raise
                yield from (without(failed) for _ in asked)
                continue
            yield from (judged(found.get(own), self.config) for own in asking.ids)

"""What the engine sends others to do, because it takes long: connections, metadata, ids."""

from __future__ import annotations

import time
from collections.abc import Hashable

from kclient.cluster import Metadata
from kclient.cluster.retry import Backoff
from kclient.cluster.tasks import Tasks
from kclient.config import ProducerOptions
from kclient.deadline import Deadline
from kclient.delivery.accumulator import FAR
from kclient.delivery.identity import Identity
from kclient.delivery.lines import LANE, Lines
from kclient.delivery.settlement import Settlement
from kclient.errors import AuthenticationError, KafkaError, UnsupportedVersion
from kclient.net.connection import Connection
from kclient.net.endpoint import Endpoint
from kclient.net.pool import Pool

_METADATA = "metadata"
_CONNECT = "connect"


class Errands:
    """Sends errands, each at most once at a time and not too often; takes their results."""

    def __init__(
        self,
        options: ProducerOptions,
        pool: Pool,
        metadata: Metadata,
        identity: Identity,
        lines: Lines,
        settlement: Settlement,
    ) -> None:
        self.tasks = Tasks(lines.wake)
        self._pool = pool
        self._metadata = metadata
        self._identity = identity
        self._lines = lines
        self._settlement = settlement
        self._backoff = Backoff(options)
        self._request_seconds = options["request_timeout_ms"] / 1000
        self._metadata_not_before = 0.0
        self._metadata_failures = 0

    def want_connection(self, leader: Endpoint, now: float) -> None:
        """Have a broker connected to, unless it failed a moment ago."""
        if self._pool.backoff_until(leader) <= now:
            self.tasks.start((_CONNECT, leader), lambda: self._connect(leader))

    def want_metadata(self, now: float) -> float:
        """Have metadata refreshed, not too often; when to look again if nothing wakes us."""
        if self.tasks.is_running(_METADATA):
            return FAR
        if now < self._metadata_not_before:
            return self._metadata_not_before
        self._metadata.mark_stale()
        deadline = Deadline(self._request_seconds)
        topics = self._settlement.topics()
        self.tasks.start(_METADATA, lambda: self._metadata.refresh(deadline, topics))
        return FAR

    def collect(self) -> None:
        """Take the results of errands that have ended."""
        for key, result in self.tasks.collect():
            if key == _METADATA:
                self._note_metadata(result)
            elif isinstance(key, tuple) and key[0] == _CONNECT:
                self._note_connection(key[1], result)
            else:
                self._note_identity(key, result)

    def _connect(self, leader: Endpoint) -> Connection:
        return self._pool.acquire(leader, LANE, Deadline(self._request_seconds))

    def _note_connection(self, leader: Endpoint, result: object) -> None:
        if isinstance(result, Connection):
            known = self._lines.get(leader.node)
            # After an interrupt it may be there already, or dropped.
            if result.is_open and (known is None or known.connection is not result):
                self._lines.add(leader, result)
            return
        self._metadata.mark_stale()
        if isinstance(result, (AuthenticationError, UnsupportedVersion)):
            self._settlement.fail_queued(result, lambda tp: self._metadata.leader(*tp) == leader)

    def _note_identity(self, key: Hashable, result: object) -> None:
        self._identity.note_task(key, result)
        trouble = self._identity.trouble
        if trouble is not None and not trouble.retriable:
            self._settlement.fail_queued(trouble)

    def _note_metadata(self, result: object) -> None:
        if isinstance(result, KafkaError):
            self._metadata_failures += 1
            if not result.retriable:
                self._settlement.fail_queued(result)
        else:
            self._metadata_failures = 0
            self._settlement.check_topics()
        wait = self._backoff.seconds(self._metadata_failures + 1)
        self._metadata_not_before = time.monotonic() + wait

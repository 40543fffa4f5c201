"""What an answer means for a partition: data, a new leader, a reset, a wait, an error."""

from __future__ import annotations

import time

from kclient._generated_codes import ERROR_CODES
from kclient.cluster import Metadata
from kclient.cluster.retry import Backoff
from kclient.config import ConsumerOptions
from kclient.errors import KafkaError, broker_error
from kclient.fetch.fetched import Fetched
from kclient.fetch.positions import PartitionState, Positions
from kclient.fetch.recovery import Recovery
from kclient.fetch.requests import BATCHES_WHOLE
from kclient.net.endpoint import Endpoint
from kclient.protocol.messages.fetch import PartitionData

_OUT_OF_RANGE, _UNKNOWN_SERVER_ERROR = 1, -1
_LARGEST_FETCH = 1 << 30


class Outcomes:
    """Reads the partitions of answers; changes their states."""

    def __init__(
        self,
        options: ConsumerOptions,
        metadata: Metadata,
        positions: Positions,
        recovery: Recovery,
    ) -> None:
        self._check_crc = options["check_crcs"]
        self._read_committed = options["isolation_level"] == "read_committed"
        self._preferred_seconds = options["metadata_max_age_ms"] / 1000
        self._metadata = metadata
        self._positions = positions
        self._recovery = recovery
        self._backoff = Backoff(options)

    def note(
        self, state: PartitionState, data: PartitionData, node: Endpoint, version: int
    ) -> Fetched | None:
        """Take what an answer says of a partition; the data to read, if there is any."""
        if data.error_code:
            self._note_error(state, data.error_code, node)
            return None
        if data.diverging_epoch.epoch >= 0:
            self._recovery.note_cut(state, data.diverging_epoch.end_offset)
            return None
        state.settle()
        stable = data.last_stable_offset if self._read_committed else -1
        state.end = data.high_watermark if stable < 0 else stable
        state.fetched_at = time.monotonic()
        if data.preferred_read_replica >= 0:
            state.preferred = data.preferred_read_replica
            state.preferred_until = state.fetched_at + self._preferred_seconds
            self._positions.version += 1
        if not data.records:
            return None
        fetched = Fetched(state, data, check_crc=self._check_crc)
        if fetched.is_empty and fetched.error is None:
            self._grow(state, version)
            return None
        state.fetch_offset, state.fetch_epoch = fetched.next_offset, fetched.last_epoch
        return fetched

    def _grow(self, state: PartitionState, version: int) -> None:
        """Old brokers send a piece of a message that is over the limit: ask for more."""
        if version < BATCHES_WHOLE:
            state.max_bytes = min(max(state.max_bytes, 1) * 2, _LARGEST_FETCH)
            self._positions.version += 1

    def note_unreachable(self, error: KafkaError, node: int = -1) -> None:
        """A broker, or all of them, cannot be reached; errors that stay are raised by poll."""
        for state in self._positions:
            leader = self._metadata.leader(*state.tp)
            if node < 0 or (leader is not None and leader.node == node):
                state.reason = str(error)
                state.failing_since = state.failing_since or time.monotonic()
                if not error.retriable:
                    self._positions.refuse(state, error)

    def _note_error(self, state: PartitionState, code: int, node: Endpoint) -> None:
        tp = state.tp
        error = broker_error(
            code,
            f"fetching {tp.topic}[{tp.partition}] at offset {state.fetch_offset} from {node}",
            topic=tp.topic,
            partition=tp.partition,
        )
        self._positions.version += 1
        if code == _OUT_OF_RANGE:
            self._note_out_of_range(state, node)
        elif error.retriable or code == _UNKNOWN_SERVER_ERROR or code not in ERROR_CODES:
            if error.stale_metadata:
                self._metadata.mark_stale()
            state.preferred = -1
            now = time.monotonic()
            state.fail(str(error), now, now + self._backoff.seconds(state.failures + 1))
        else:
            self._positions.refuse(state, error)

    def _note_out_of_range(self, state: PartitionState, node: Endpoint) -> None:
        if state.preferred == node.node:
            state.preferred = -1  # a follower may be behind: the leader has the last word
            return
        why = f"has no offset {state.fetch_offset} (OFFSET_OUT_OF_RANGE)"
        self._recovery.lose(state, why, "to say where to read on")

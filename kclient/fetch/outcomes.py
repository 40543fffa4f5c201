"""What an answer means for a partition: data, a new leader, a reset, a wait, an error."""

from __future__ import annotations

import logging
import time

from kclient.cluster import Metadata
from kclient.cluster.retry import Backoff
from kclient.config import ConsumerOptions
from kclient.errors import KafkaError, OffsetOutOfRange, broker_error
from kclient.fetch.fetched import Fetched
from kclient.fetch.positions import PartitionState, Phase, Positions
from kclient.fetch.requests import BATCHES_WHOLE
from kclient.fetch.resets import reset_time
from kclient.net.endpoint import Endpoint
from kclient.protocol.messages.fetch import PartitionData

_log = logging.getLogger(__name__)
_OUT_OF_RANGE = 1
_LARGEST_FETCH = 1 << 30


class Outcomes:
    """Reads the partitions of answers; changes their states."""

    def __init__(
        self,
        options: ConsumerOptions,
        metadata: Metadata,
        positions: Positions,
        backoff: Backoff,
    ) -> None:
        self._reset = options["auto_offset_reset"]
        self._check_crc = options["check_crcs"]
        self._preferred_seconds = options["metadata_max_age_ms"] / 1000
        self._metadata = metadata
        self._positions = positions
        self._backoff = backoff

    def note(
        self, state: PartitionState, data: PartitionData, node: Endpoint, version: int
    ) -> Fetched | None:
        """Take what an answer says of a partition; the data to read, if there is any."""
        if data.error_code:
            self._note_error(state, data.error_code, node)
            return None
        if data.diverging_epoch.epoch >= 0:
            self.note_truncation(state, data.diverging_epoch.end_offset)
            return None
        state.settle()
        state.end, state.log_start = data.high_watermark, data.log_start_offset
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
            state.max_bytes = min(state.max_bytes * 2, _LARGEST_FETCH)
            self._positions.version += 1

    def note_truncation(self, state: PartitionState, end_offset: int) -> None:
        """The log was cut below our position: what we read is gone from it (KIP-320)."""
        _log.warning(
            "%s[%d] was truncated to offset %d, before our position %d (unclean leader election)",
            *state.tp,
            end_offset,
            state.position,
        )
        if self._reset == "none":
            state.error = OffsetOutOfRange(
                f"{state.tp.topic}[{state.tp.partition}] was truncated to offset {end_offset}, "
                f"before position {state.position}; seek, or set auto_offset_reset",
                topic=state.tp.topic,
                partition=state.tp.partition,
            )
        else:
            state.move(max(0, min(end_offset, state.position)))
        self._positions.version += 1

    def note_unreachable(self, error: KafkaError, node: int = -1) -> None:
        """A broker, or all of them, cannot be reached; errors that stay are raised by poll."""
        for state in self._positions:
            leader = self._metadata.leader(*state.tp)
            if node < 0 or (leader is not None and leader.node == node):
                state.reason = str(error)
                if not error.retriable:
                    state.error = error

    def _note_error(self, state: PartitionState, code: int, node: Endpoint) -> None:
        tp = state.tp
        error = broker_error(
            code, f"fetching {tp.topic}[{tp.partition}] from {node}", topic=tp.topic
        )
        self._positions.version += 1
        if code == _OUT_OF_RANGE:
            self._note_out_of_range(state, node, error)
        elif error.retriable:
            if error.stale_metadata:
                self._metadata.mark_stale()
            state.preferred = -1
            state.fail(str(error), time.monotonic() + self._backoff.seconds(state.failures + 1))
        else:
            state.error = error

    def _note_out_of_range(self, state: PartitionState, node: Endpoint, error: KafkaError) -> None:
        if state.preferred == node.node:
            state.preferred = -1  # a follower may be behind: the leader has the last word
        elif self._reset == "none":
            state.error = error
        else:
            _log.info("%s; reset to %s", error, self._reset)
            state.reset(reset_time(self._reset))
            state.phase = Phase.RESETTING

"""Which partitions are fetched from which broker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kclient.cluster import Metadata
from kclient.fetch.line import Line
from kclient.fetch.positions import PartitionState, Phase, Positions
from kclient.fetch.recovery import Recovery
from kclient.net.endpoint import Endpoint
from kclient.types import TopicPartition

_log = logging.getLogger(__name__)
_LOOK_AGAIN = 5.0  # seconds after which plans are made anew, whether anything happened or not
SILENCE = 30.0  # seconds without data, in spite of lag, that are worth a warning


class Share(NamedTuple):
    """What one broker is asked for."""

    endpoint: Endpoint
    states: dict[TopicPartition, PartitionState]


class Plan:
    """Made anew only when positions or metadata have changed: polls cost what is active."""

    def __init__(
        self,
        metadata: Metadata,
        positions: Positions,
        recovery: Recovery,
        is_waiting: Callable[[PartitionState], bool],
    ) -> None:
        """``is_waiting`` tells of a partition whether its data waits for the user."""
        self.shares: dict[int, Share] = {}
        self.lacks_leader = False
        self.again = 0.0
        """When to look again at the latest."""
        self._metadata = metadata
        self._positions = positions
        self._recovery = recovery
        self._is_waiting = is_waiting
        self._seen: tuple[int, object] = (-1, None)

    def is_due(self, now: float) -> bool:
        """Whether anything has changed, or time has come."""
        version, view = self._seen
        return (
            now >= self.again
            or version != self._positions.version
            or view is not self._metadata.view
        )

    def make(self, now: float, lines: Mapping[int, Line]) -> bool:
        """Spread the partitions; whether some line should name all partitions anew."""
        shares: dict[int, Share] = {}
        self.again, self.lacks_leader = now + _LOOK_AGAIN, False
        is_silent = False
        for state in self._positions:
            if not self._is_ready(state, now):
                continue
            is_silent = self._is_silent(state, now) or is_silent
            source = self._source(state, now, lines)
            if source is not None:
                shares.setdefault(source.node, Share(source, {})).states[state.tp] = state
            elif state.phase is Phase.FETCHING:
                self.lacks_leader = True
        self.shares = shares
        self._seen = (self._positions.version, self._metadata.view)
        return is_silent

    def _is_ready(self, state: PartitionState, now: float) -> bool:
        self._warn_of_failures(state, now)
        if state.phase is not Phase.FETCHING or state.is_paused or state.error is not None:
            return False
        if state.not_before > now:
            self.again = min(self.again, state.not_before)
            return False
        return True

    def _source(
        self, state: PartitionState, now: float, lines: Mapping[int, Line]
    ) -> Endpoint | None:
        """The broker to fetch from: the leader, or the follower it named (KIP-392)."""
        view = self._metadata.view
        topic = view.topics.get(state.tp.topic)
        partition = None if topic is None else topic.partitions.get(state.tp.partition)
        if topic is None or partition is None:
            return None
        line = lines.get(partition.leader_id)
        if not self._recovery.is_sound(
            state, topic.topic_id, partition.leader_epoch, line.version if line else None
        ):
            return None
        if state.preferred >= 0 and now < state.preferred_until:
            follower = view.brokers.get(state.preferred)
            if follower is not None:
                return follower
        return view.brokers.get(partition.leader_id)

    def _is_silent(self, state: PartitionState, now: float) -> bool:
        """Whether there is lag and nothing comes, which is told once; then again after a while."""
        if state.end <= state.fetch_offset or not 0 < state.fetched_at < now - SILENCE:
            return False
        state.fetched_at = now
        if self._is_waiting(state):
            return False  # the user has not come for it
        _log.warning(
            "%s[%d] has records up to %d, but none came for %d s at position %d; asking for all "
            "partitions anew",
            *state.tp,
            state.end,
            SILENCE,
            state.fetch_offset,
        )
        return True

    def _warn_of_failures(self, state: PartitionState, now: float) -> None:
        if 0 < state.failing_since < now - SILENCE:
            state.failing_since = now
            _log.warning(
                "%s[%d] could not be read for %d s, and is tried on: %s",
                *state.tp,
                SILENCE,
                state.reason,
            )

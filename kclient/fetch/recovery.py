"""How partitions find their offset: what their group committed, a reset, a check of epochs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Mapping, Sequence

from kclient.cluster import Metadata, Router
from kclient.cluster.offsets import EpochEnd, OffsetAt, epoch_ends, offsets_at
from kclient.cluster.retry import Backoff
from kclient.cluster.tasks import Tasks
from kclient.config import ConsumerOptions
from kclient.deadline import Deadline
from kclient.errors import KafkaError, OffsetOutOfRange, UnsupportedVersion
from kclient.fetch.positions import LATEST, PartitionState, Phase, Positions
from kclient.fetch.requests import DIVERGING_EPOCHS
from kclient.fetch.resets import reset_time
from kclient.types import OffsetAndMetadata, TopicPartition

_log = logging.getLogger(__name__)
_COMMITTED, _RESET, _VALIDATE = "committed", "reset", "validate"
FAR = float("inf")

Committed = Mapping[TopicPartition, "OffsetAndMetadata | None"]
CommittedReader = Callable[[Sequence[TopicPartition], Deadline], Committed]


class Recovery:
    """Drives every partition that cannot be fetched yet; errands do the asking."""

    def __init__(
        self,
        options: ConsumerOptions,
        router: Router,
        metadata: Metadata,
        positions: Positions,
    ) -> None:
        self.committed: CommittedReader | None = None
        """Reads a group's offsets; None without a group."""
        self._reset = options["auto_offset_reset"]
        self._read_committed = options["isolation_level"] == "read_committed"
        self._router = router
        self._metadata = metadata
        self._positions = positions
        self._backoff = Backoff(options)
        self._seconds = options["request_timeout_ms"] / 1000
        self._asked: dict[Hashable, dict[TopicPartition, int]] = {}
        self._seen = (-1, 0.0)
        self._has_pending = False

    def step(self, tasks: Tasks, now: float) -> float:
        """Start what is due; return when there may be more to do."""
        if self._seen[0] == self._positions.version and not self._has_pending:
            return FAR
        self._seen = (self._positions.version, now)
        pending = [state for state in self._positions if state.phase is not Phase.FETCHING]
        self._has_pending = bool(pending)
        if not pending:
            return FAR
        self._start(tasks, _COMMITTED, Phase.LOST, now, self._find_committed)
        self._start(tasks, _RESET, Phase.RESETTING, now, self._find_offsets)
        self._start(tasks, _VALIDATE, Phase.VALIDATING, now, self._find_ends)
        return min((each.not_before for each in pending if each.not_before > now), default=FAR)

    def _start(
        self,
        tasks: Tasks,
        key: str,
        phase: Phase,
        now: float,
        work: Callable[[Mapping[TopicPartition, tuple[int, ...]]], object],
    ) -> None:
        if tasks.is_running(key):
            return
        due = [each for each in self._positions.in_phase(phase, now) if each.error is None]
        if due:
            self._asked[key] = {each.tp: each.token for each in due}
            facts = {each.tp: (each.reset_time, each.leader_epoch, each.epoch) for each in due}
            tasks.start(key, lambda: work(facts))

    def note_task(self, key: Hashable, result: object) -> None:
        """Take the result of an errand; partitions that changed course meanwhile keep theirs."""
        asked = self._asked.pop(key, {})
        for tp, token in asked.items():
            state = self._positions.states.get(tp)
            if state is None or state.token != token:
                continue
            told = result if isinstance(result, KafkaError) else _told(result, tp)
            if isinstance(told, KafkaError):
                self._note_error(state, told)
            elif key == _COMMITTED:
                self._note_committed(state, told)
            elif key == _RESET:
                self._note_offset(state, told)
            else:
                self._note_end(state, told)
        self._positions.version += 1

    def note_leader(self, state: PartitionState, leader_epoch: int, fetch_version: int) -> bool:
        """A new leader: whether it must be checked first that nothing was cut off.

        From Fetch v12 on, the broker compares the last epoch read by itself (KIP-595).
        """
        must_check = (
            0 < fetch_version < DIVERGING_EPOCHS and state.leader_epoch >= 0 and state.epoch >= 0
        )
        state.leader_epoch = leader_epoch
        if must_check:
            state.phase = Phase.VALIDATING
            self._positions.version += 1
        return must_check

    def _find_committed(self, facts: Mapping[TopicPartition, tuple[int, ...]]) -> Committed:
        if self.committed is None:
            return dict.fromkeys(facts)
        return self.committed(list(facts), Deadline(self._seconds))

    def _find_offsets(self, facts: Mapping[TopicPartition, tuple[int, ...]]) -> object:
        times = {tp: fact[0] for tp, fact in facts.items()}
        deadline = Deadline(self._seconds)
        return offsets_at(self._router, times, deadline, read_committed=self._read_committed)

    def _find_ends(self, facts: Mapping[TopicPartition, tuple[int, ...]]) -> object:
        epochs = {tp: (fact[1], fact[2]) for tp, fact in facts.items()}
        return epoch_ends(self._router, epochs, Deadline(self._seconds))

    def _note_committed(self, state: PartitionState, told: object) -> None:
        if isinstance(told, OffsetAndMetadata) and told.offset >= 0:
            state.move(told.offset, told.leader_epoch)
        elif self._reset == "none":
            state.error = OffsetOutOfRange(
                f"{state.tp.topic}[{state.tp.partition}] has no committed offset, and "
                "auto_offset_reset is 'none': seek, or commit one first",
                topic=state.tp.topic,
                partition=state.tp.partition,
            )
        else:
            state.reset(reset_time(self._reset))

    def _note_offset(self, state: PartitionState, told: object) -> None:
        assert isinstance(told, OffsetAt)
        if told.offset < 0:  # no record so late: read on from the end
            state.reset(LATEST)
        else:
            state.move(told.offset, told.leader_epoch)

    def _note_end(self, state: PartitionState, told: object) -> None:
        assert isinstance(told, EpochEnd)
        state.phase = Phase.FETCHING
        state.settle()
        # An epoch that the leader does not know says nothing: only a proven cut counts.
        if 0 <= told.end_offset < state.position and told.epoch >= 0:
            state.move(told.end_offset)

    def _note_error(self, state: PartitionState, error: KafkaError) -> None:
        if state.phase is Phase.VALIDATING and isinstance(error, UnsupportedVersion):
            state.phase = Phase.FETCHING
        elif error.retriable:
            wait = self._backoff.seconds(state.failures + 1)
            state.fail(str(error), time.monotonic() + wait)
        else:
            state.error = error


def _told(result: object, tp: TopicPartition) -> object:
    assert isinstance(result, Mapping)
    return result[tp]

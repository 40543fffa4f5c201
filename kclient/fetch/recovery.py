"""How partitions find their offset: what their group committed, a reset, a check of epochs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from uuid import UUID

from kclient.cluster import Metadata, Router
from kclient.cluster.metadata import TOPIC_GRACE
from kclient.cluster.offsets import EpochEnd, OffsetAt, epoch_ends, offsets_at
from kclient.cluster.retry import Backoff
from kclient.cluster.tasks import Tasks
from kclient.config import ConsumerOptions
from kclient.deadline import Deadline
from kclient.errors import KafkaError, OffsetOutOfRange, TopicNotFound, UnsupportedVersion
from kclient.fetch.positions import LATEST, PartitionState, Phase, Positions
from kclient.fetch.requests import CURRENT_EPOCHS, DIVERGING_EPOCHS
from kclient.fetch.resets import reset_time
from kclient.protocol.wire import ZERO_UUID
from kclient.types import OffsetAndMetadata, TopicPartition

_log = logging.getLogger(__name__)
_CLUSTER_AUTHORIZATION_FAILED = 31
_ONCE = 1  # round of questions; what fails is asked again by itself, after its own wait
FAR = float("inf")

Committed = Mapping[TopicPartition, "OffsetAndMetadata | None"]
CommittedReader = Callable[[Sequence[TopicPartition], Deadline], Committed]
Facts = Mapping[TopicPartition, tuple[int, int, int]]
"""Of each partition: the time to look an offset up by, the leader's epoch, the position's."""


class Recovery:
    """Drives every partition that cannot be fetched yet; errands do the asking.

    There is an errand for each leader, so that one that does not answer holds up no other.
    """

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
        self._seen = -1
        self._again = FAR
        self._work: dict[Phase, Callable[[Facts], object]] = {
            Phase.LOST: self._find_committed,
            Phase.RESETTING: self._find_offsets,
            Phase.VALIDATING: self._find_ends,
        }

    # --- errands ---

    def step(self, tasks: Tasks, now: float) -> float:
        """Start what is due; return when there may be more to do."""
        if self._seen == self._positions.version and now < self._again:
            return self._again
        self._seen, self._again = self._positions.version, FAR
        due: dict[tuple[Phase, int], list[PartitionState]] = {}
        for state in self._positions:
            if state.phase is Phase.FETCHING or state.error is not None:
                continue
            if state.not_before > now:
                self._again = min(self._again, state.not_before)
            else:
                due.setdefault((state.phase, self._place(state)), []).append(state)
        for key, states in due.items():
            if not tasks.is_running(key):
                self._start(tasks, key, states)
        return self._again

    def _place(self, state: PartitionState) -> int:
        """The node that is asked about a partition, -1 if that is the coordinator or unknown."""
        leader = None if state.phase is Phase.LOST else self._metadata.view.leader(state.tp)
        return -1 if leader is None else leader.node

    def _start(self, tasks: Tasks, key: tuple[Phase, int], states: list[PartitionState]) -> None:
        self._asked[key] = {state.tp: state.token for state in states}
        facts = {}
        for state in states:
            partition = self._metadata.view.partition(state.tp)
            if partition is not None:  # leaders may have changed since it was last fetched
                state.leader_epoch = max(state.leader_epoch, partition.leader_epoch)
            facts[state.tp] = (state.reset_time, state.leader_epoch, state.epoch)
        tasks.start(key, lambda: self._work[key[0]](facts))

    def note_task(self, key: Hashable, result: object, now: float) -> None:
        """Take the result of an errand; partitions that changed course meanwhile keep theirs."""
        for tp, token in self._asked.pop(key, {}).items():
            state = self._positions.states.get(tp)
            if state is None or state.token != token:
                continue
            told = result[tp] if isinstance(result, Mapping) else result
            if isinstance(told, KafkaError):
                self._note_error(state, told, now)
            elif isinstance(told, OffsetAt):
                self._note_offset(state, told)
            elif isinstance(told, EpochEnd):
                self._note_end(state, told)
            else:
                self._note_committed(state, told)
        self._positions.version += 1

    def _find_committed(self, facts: Facts) -> Committed:
        if self.committed is None:
            return dict.fromkeys(facts)
        return self.committed(list(facts), Deadline(self._seconds))

    def _find_offsets(self, facts: Facts) -> object:
        times = {tp: fact[0] for tp, fact in facts.items()}
        return offsets_at(
            self._router,
            times,
            Deadline(self._seconds),
            read_committed=self._read_committed,
            attempts=_ONCE,
        )

    def _find_ends(self, facts: Facts) -> object:
        epochs = {tp: (fact[1], fact[2]) for tp, fact in facts.items()}
        return epoch_ends(self._router, epochs, Deadline(self._seconds), attempts=_ONCE)

    # --- their results ---

    def _note_committed(self, state: PartitionState, told: object) -> None:
        if isinstance(told, OffsetAndMetadata) and told.offset >= 0:
            state.move(told.offset, told.leader_epoch)
        else:
            self.lose(state, "has no committed offset", "or commit one first")

    def _note_offset(self, state: PartitionState, told: OffsetAt) -> None:
        if told.offset < 0:  # no record so late: read on from the end
            state.reset(LATEST)
        else:
            state.move(told.offset, told.leader_epoch)

    def _note_end(self, state: PartitionState, told: EpochEnd) -> None:
        state.phase = Phase.FETCHING
        state.settle()
        # An epoch that the leader does not know says nothing: only a proven cut counts.
        if told.epoch >= 0 and told.end_offset >= 0:
            self.note_cut(state, told.end_offset)

    def _note_error(self, state: PartitionState, error: KafkaError, now: float) -> None:
        code = getattr(error, "code", None)
        if state.phase is Phase.VALIDATING and (
            isinstance(error, UnsupportedVersion) or code == _CLUSTER_AUTHORIZATION_FAILED
        ):
            state.phase = Phase.FETCHING  # so old that only brokers may ask
            return
        if error.retriable:
            state.fail(str(error), now, now + self._backoff.seconds(state.failures + 1))
            is_final = isinstance(error, TopicNotFound) and now - state.failing_since > TOPIC_GRACE
            if not is_final:
                return
        self._positions.refuse(state, error)

    # --- what else can befall a position ---

    def is_sound(
        self,
        state: PartitionState,
        topic_id: UUID,
        leader_epoch: int,
        fetch_version: int | None,
    ) -> bool:
        """Whether a partition can be fetched, as far as its topic and leader go.

        ``fetch_version`` is that of the leader, None if it is not known yet. From Fetch v12
        on, a broker finds out by itself whether its log was cut (KIP-595).
        """
        if state.topic_id != topic_id:
            is_other = state.topic_id not in (None, ZERO_UUID) and topic_id != ZERO_UUID
            state.topic_id = topic_id
            if is_other:
                state.leader_epoch = -1
                self.lose(state, "was deleted and made anew", "to say where to read on")
                return False
        if state.leader_epoch != leader_epoch:
            state.is_unchecked = state.leader_epoch < leader_epoch and state.epoch >= 0
            state.leader_epoch = leader_epoch
        if state.is_unchecked and fetch_version is not None:
            state.is_unchecked = False
            if CURRENT_EPOCHS <= fetch_version < DIVERGING_EPOCHS:
                state.rewind()
                state.phase = Phase.VALIDATING
                self._positions.version += 1
                return False
        return True

    def note_cut(self, state: PartitionState, end_offset: int) -> None:
        """The log ends at ``end_offset`` for the epoch last read, which is proof (KIP-320)."""
        self._positions.version += 1
        if end_offset >= state.position:
            state.rewind()  # nothing that the user has seen is gone
            state.fetch_epoch = state.epoch = -1
            return
        where = f"was truncated to offset {end_offset}, before our position {state.position}"
        if self._reset == "none":
            self.lose(state, where, "to say where to read on")
        else:
            _log.warning("%s[%d] %s (unclean leader election)", *state.tp, where)
            state.move(end_offset)

    def lose(self, state: PartitionState, why: str, advice: str) -> None:
        """A position is not there, or not any more: ``auto_offset_reset`` says what to do."""
        self._positions.version += 1
        if self._reset != "none":
            _log.info("%s[%d] %s; reset to %s", *state.tp, why, self._reset)
            state.reset(reset_time(self._reset))
            return
        topic, partition = state.tp
        message = f"{topic}[{partition}] {why}, and auto_offset_reset is 'none': seek, {advice}"
        self._positions.refuse(state, OffsetOutOfRange(message, topic=topic, partition=partition))

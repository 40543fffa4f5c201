"""Where a consumer is in each of its partitions; decides, and does nothing itself.

Every assigned partition is in one phase at any time, and each phase but the last is left by
one request: LOST asks for the committed offset or a reset, RESETTING for an offset by time,
VALIDATING for the end of an epoch (KIP-320), FETCHING for records. After an error there is a
moment before which it is not tried again, and a reason, which ``health`` shows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from uuid import UUID

from kclient.errors import ConfigError, KafkaError
from kclient.types import TopicPartition


class Phase(Enum):
    """What a partition needs next; see the module."""

    LOST = "needs an offset"
    RESETTING = "looks an offset up"
    VALIDATING = "checks for truncation"
    FETCHING = "fetches"


EARLIEST, LATEST = -2, -1
"""The times that ListOffsets takes for the first and the next offset."""


class PartitionState:
    """One assigned partition. Offsets are of the log; times of time.monotonic()."""

    __slots__ = (
        "end",
        "epoch",
        "error",
        "failing_since",
        "failures",
        "fetch_epoch",
        "fetch_offset",
        "fetched_at",
        "is_paused",
        "is_unchecked",
        "leader_epoch",
        "max_bytes",
        "not_before",
        "phase",
        "position",
        "preferred",
        "preferred_until",
        "reason",
        "reset_time",
        "token",
        "topic_id",
        "tp",
    )

    def __init__(self, tp: TopicPartition, max_bytes: int) -> None:
        self.tp = tp
        self.phase = Phase.LOST
        self.position = -1
        """The next offset for the user, -1 if it is not known."""
        self.epoch = -1
        """The leader epoch of the record before ``position``."""
        self.fetch_offset = -1
        """The next offset to ask for: further than ``position`` while data is waiting."""
        self.fetch_epoch = -1
        """The leader epoch of the record before ``fetch_offset``."""
        self.leader_epoch = -1
        """The newest epoch of a leader that is known."""
        self.is_unchecked = False
        """Whether a new leader has come since the position was known to be sound."""
        self.topic_id: UUID | None = None
        """The topic's id when its position was found; another one is another topic."""
        self.token = 0
        """Counts changes of course: what was fetched under another number is dropped."""
        self.is_paused = False
        self.reset_time = LATEST
        self.not_before = 0.0
        self.failing_since = 0.0
        """When the first of the failures in a row was, 0 if there is none."""
        self.failures = 0
        self.reason = ""
        self.error: KafkaError | None = None
        self.preferred = -1
        self.preferred_until = 0.0
        self.end = -1
        """Where a reader gets to: the high watermark, or the last stable offset."""
        self.fetched_at = 0.0
        self.max_bytes = max_bytes

    def move(self, offset: int, epoch: int = -1) -> None:
        """Read on from ``offset``, whatever is on its way."""
        self.position = self.fetch_offset = offset
        self.epoch = self.fetch_epoch = epoch
        self.phase = Phase.FETCHING
        self.preferred = -1
        self.is_unchecked = False
        self.token += 1
        self.settle()

    def rewind(self) -> None:
        """Drop what was fetched and not handed out; it is asked for again."""
        self.fetch_offset, self.fetch_epoch = self.position, self.epoch
        self.token += 1

    def reset(self, time_ms: int) -> None:
        """Have the offset looked up by time, EARLIEST or LATEST."""
        self.phase, self.reset_time = Phase.RESETTING, time_ms
        self.position = self.fetch_offset = -1
        self.token += 1

    def fail(self, reason: str, now: float, not_before: float) -> None:
        """Try again, but not before then."""
        self.failures += 1
        self.failing_since = self.failing_since or now
        self.reason, self.not_before = reason, not_before

    def settle(self) -> None:
        """Forget past failures."""
        self.failures, self.reason = 0, ""
        self.not_before = self.failing_since = 0.0


class Positions:
    """All assigned partitions. ``version`` grows whenever what to fetch may have changed."""

    def __init__(self, max_bytes: int) -> None:
        self.version = 0
        self.states: dict[TopicPartition, PartitionState] = {}
        self._max_bytes = max_bytes
        self._refused: list[PartitionState] = []

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(self.states.values())

    def __contains__(self, tp: object) -> bool:
        return tp in self.states

    def get(self, tp: TopicPartition) -> PartitionState:
        """The state of an assigned partition. Raises ConfigError if it is not assigned."""
        state = self.states.get(tp)
        if state is None:
            tp = TopicPartition(*tp)
            raise ConfigError(
                f"{tp.topic}[{tp.partition}] is not assigned to this consumer: assign it, or "
                "wait until the group has (poll, or the on_assigned callback)",
                topic=tp.topic,
                partition=tp.partition,
            )
        return state

    def assign(self, tps: Collection[TopicPartition]) -> None:
        """Have exactly these; those that stay keep their position."""
        before = self.states
        self.states = {tp: before.get(tp) or PartitionState(tp, self._max_bytes) for tp in tps}
        for tp, state in before.items():
            if tp not in self.states:
                state.token += 1  # what is on its way is for nobody
        self.version += 1

    def add(self, tps: Iterable[TopicPartition]) -> None:
        """Have these too."""
        self.assign([*self.states, *tps])

    def remove(self, tps: Iterable[TopicPartition]) -> None:
        """Have these no more."""
        gone = set(tps)
        self.assign([tp for tp in self.states if tp not in gone])

    def pause(self, tps: Iterable[TopicPartition], *, is_paused: bool) -> None:
        """Stop or resume fetching; a paused partition's data is dropped."""
        for state in [self.get(tp) for tp in tps]:
            if state.is_paused != is_paused:
                state.is_paused = is_paused
                state.rewind()
                self.version += 1

    def seek(self, tp: TopicPartition, offset: int, epoch: int = -1) -> None:
        """Read on from ``offset``."""
        self.get(tp).move(offset, epoch)
        self.version += 1

    def refuse(self, state: PartitionState, error: KafkaError) -> None:
        """The user has to see an error before the partition goes on."""
        state.error = error
        self._refused.append(state)
        self.version += 1

    @property
    def has_error(self) -> bool:
        """Whether there may be an error that the user has not seen."""
        return bool(self._refused)

    def take_error(self) -> KafkaError | None:
        """An error that the user has not seen; its partition goes on."""
        while self._refused:
            state = self._refused.pop(0)
            error, state.error = state.error, None
            if error is not None and self.states.get(state.tp) is state:
                self.version += 1
                return error
        return None

    def in_phase(self, phase: Phase, now: float) -> list[PartitionState]:
        """Those that may do now what their phase asks for."""
        return [state for state in self if state.phase is phase and state.not_before <= now]

"""Where a consumer is in each of its partitions; decides, and does nothing itself.

Every assigned partition is in one phase at any time, and each phase but the last is left by
one request: LOST asks for the committed offset or a reset, RESETTING for an offset by time,
VALIDATING for the end of an epoch (KIP-320), FETCHING for records. After an error there is a
moment before which it is not tried again, and a reason, which ``health`` shows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import Enum

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
        "failures",
        "fetch_epoch",
        "fetch_offset",
        "fetched_at",
        "is_paused",
        "leader_epoch",
        "log_start",
        "max_bytes",
        "not_before",
        "phase",
        "position",
        "preferred",
        "preferred_until",
        "reason",
        "reset_time",
        "token",
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
        """The leader's epoch when the position was last known to be sound."""
        self.token = 0
        """Counts changes of course: what was fetched under another number is dropped."""
        self.is_paused = False
        self.reset_time = LATEST
        self.not_before = 0.0
        self.failures = 0
        self.reason = ""
        self.error: KafkaError | None = None
        self.preferred = -1
        self.preferred_until = 0.0
        self.end = self.log_start = -1
        self.fetched_at = 0.0
        self.max_bytes = max_bytes

    def move(self, offset: int, epoch: int = -1) -> None:
        """Read on from ``offset``, whatever is on its way."""
        self.position = self.fetch_offset = offset
        self.epoch = self.fetch_epoch = epoch
        self.phase = Phase.FETCHING
        self.preferred = -1
        self.token += 1
        self.settle()

    def reset(self, time_ms: int) -> None:
        """Have the offset looked up by time, EARLIEST or LATEST."""
        self.phase, self.reset_time = Phase.RESETTING, time_ms
        self.position = self.fetch_offset = -1
        self.token += 1

    def fail(self, reason: str, not_before: float) -> None:
        """Try again, but not before then."""
        self.failures += 1
        self.reason, self.not_before = reason, not_before

    def settle(self) -> None:
        """Forget past failures."""
        self.failures, self.reason, self.not_before = 0, "", 0.0


class Positions:
    """All assigned partitions. ``version`` grows whenever what to fetch may have changed."""

    def __init__(self, max_bytes: int) -> None:
        self.version = 0
        self.states: dict[TopicPartition, PartitionState] = {}
        self._max_bytes = max_bytes

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(self.states.values())

    def __contains__(self, tp: object) -> bool:
        return tp in self.states

    def get(self, tp: TopicPartition) -> PartitionState:
        """The state of an assigned partition. Raises ConfigError if it is not assigned."""
        state = self.states.get(tp)
        if state is None:
            raise ConfigError(
                f"{tp.topic}[{tp.partition}] is not assigned to this consumer: assign it, or "
                "wait until the group has (poll, or the on_assigned callback)",
                topic=tp.topic,
                partition=tp.partition,
            )
        return state

    def assign(self, tps: Collection[TopicPartition]) -> None:
        """Have exactly these; those that stay keep their position."""
        wanted = dict.fromkeys(tps)
        self.states = {
            tp: self.states.get(tp) or PartitionState(tp, self._max_bytes) for tp in wanted
        }
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
                if state.phase is Phase.FETCHING:
                    state.fetch_offset, state.fetch_epoch = state.position, state.epoch
                    state.token += 1
                self.version += 1

    def seek(self, tp: TopicPartition, offset: int, epoch: int = -1) -> None:
        """Read on from ``offset``."""
        self.get(tp).move(offset, epoch)
        self.version += 1

    def in_phase(self, phase: Phase, now: float) -> list[PartitionState]:
        """Those that may do now what their phase asks for."""
        return [state for state in self if state.phase is phase and state.not_before <= now]

"""Questions about offsets, for a consumer's methods: all or an error; and moving to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kclient.cluster import Router
from kclient.cluster.offsets import OffsetAt, offsets_at
from kclient.config import ConsumerOptions
from kclient.deadline import Deadline
from kclient.errors import KafkaError, KafkaTimeout
from kclient.fetch.positions import LATEST, Positions
from kclient.fetch.reading import Reading
from kclient.types import TopicPartition


class Lookup:
    """Looks offsets up by time, and moves positions there."""

    def __init__(
        self, options: ConsumerOptions, router: Router, positions: Positions, reading: Reading
    ) -> None:
        self._router = router
        self._positions = positions
        self._reading = reading
        self._read_committed = options["isolation_level"] == "read_committed"

    def find(
        self, times: Mapping[TopicPartition, int], deadline: Deadline
    ) -> dict[TopicPartition, OffsetAt]:
        """Offsets by time (ms; -2 the first, -1 the next). Raises the first error there is."""
        wanted = {TopicPartition(*tp): when for tp, when in times.items()}
        committed = self._read_committed
        return find_offsets(self._router, wanted, deadline, read_committed=committed)

    def all_at(
        self, tps: Iterable[TopicPartition], time_ms: int, deadline: Deadline
    ) -> dict[TopicPartition, int]:
        """The offset of each partition at the same time."""
        found = self.find(dict.fromkeys(tps, time_ms), deadline)
        return {tp: at.offset for tp, at in found.items()}

    def seek_by_time(self, tps: Iterable[TopicPartition], time_ms: int, deadline: Deadline) -> None:
        """Move to the first record at or after a time, to the end if there is none.

        Raises ConfigError if a partition is not assigned.
        """
        wanted = {self._positions.get(tp).tp: time_ms for tp in tps}
        found = self.find(wanted, deadline)
        late = [tp for tp, at in found.items() if at.offset < 0]
        found.update(self.find(dict.fromkeys(late, LATEST), deadline))
        self.seek(found)

    def seek(self, offsets: Mapping[TopicPartition, OffsetAt]) -> None:
        """Read on from these."""
        for tp, at in offsets.items():
            self._positions.seek(tp, at.offset, at.leader_epoch)
        self._reading.forget(offsets)


def find_offsets(
    router: Router,
    times: Mapping[TopicPartition, int],
    deadline: Deadline,
    *,
    read_committed: bool = False,
) -> dict[TopicPartition, OffsetAt]:
    """Offsets by time (ms; -2 the first, -1 the next). Raises the first error there is."""
    found = offsets_at(router, times, deadline, read_committed=read_committed)
    return {tp: _good(tp, told, deadline) for tp, told in found.items()}


def _good(tp: TopicPartition, told: OffsetAt | KafkaError, deadline: Deadline) -> OffsetAt:
    if not isinstance(told, KafkaError):
        return told
    if not told.retriable:
        raise told
    what = f"looking for an offset of {tp.topic}[{tp.partition}]"
    message = f"{what}: not done within {deadline.seconds:g} s: {told}"
    raise KafkaTimeout(message, cause=told) from told

"""Questions about offsets, for a consumer's methods: all or an error."""

from __future__ import annotations

from collections.abc import Mapping

from kclient.cluster import Router
from kclient.cluster.offsets import OffsetAt, offsets_at
from kclient.deadline import Deadline
from kclient.errors import KafkaError, KafkaTimeout
from kclient.types import TopicPartition


def find_offsets(
    router: Router,
    times: Mapping[TopicPartition, int],
    deadline: Deadline,
    *,
    read_committed: bool = False,
) -> dict[TopicPartition, OffsetAt]:
    """Offsets by time (ms; -2 the first, -1 the next). Raises the first error there is."""
    found = offsets_at(router, times, deadline, read_committed=read_committed)
    good: dict[TopicPartition, OffsetAt] = {}
    for tp, told in found.items():
        if isinstance(told, KafkaError):
            if told.retriable:
                what = f"looking for an offset of {tp.topic}[{tp.partition}]"
                raise KafkaTimeout(
                    f"{what}: not done within {deadline.seconds:g} s: {told}", cause=told
                ) from told
            raise told
        good[tp] = told
    return good

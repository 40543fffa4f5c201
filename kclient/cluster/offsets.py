"""Offsets of partitions: first, next, by time, and where an epoch ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kclient.cluster.call import Call
from kclient.cluster.router import Router
from kclient.cluster.target import Leader
from kclient.deadline import Deadline
from kclient.errors import KafkaError, UnsupportedVersion, broker_error
from kclient.protocol import Message
from kclient.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kclient.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kclient.types import TopicPartition


class OffsetAt(NamedTuple):
    """An offset with the record's timestamp (ms) and leader epoch, -1 where unknown.

    ``offset`` is -1 where there is no record so late.
    """

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


class EpochEnd(NamedTuple):
    """Where an epoch, or the last one before it, ends."""

    epoch: int
    end_offset: int


def offsets_at(
    router: Router,
    times: Mapping[TopicPartition, int],
    deadline: Deadline,
    *,
    read_committed: bool = False,
    attempts: int | None = None,
) -> dict[TopicPartition, OffsetAt | KafkaError]:
    """The first offset at or after a time (ms), by partition; -2 is the first, -1 the next.

    One request to each leader. What fails is tried again until the deadline, or ``attempts``
    times in all. By time, brokers before 0.10.1 fail: they only know when segments changed,
    and a consumer that took those offsets would leave records out.
    """

    def call(tps: Sequence[TopicPartition]) -> Call[Mapping[TopicPartition, OffsetAt | KafkaError]]:
        def build(version: int) -> Message:
            if version == 0 and any(times[tp] >= 0 for tp in tps):
                raise UnsupportedVersion(
                    "the broker cannot look up an offset by timestamp: Kafka can since 0.10.1"
                )
            request = ListOffsetsRequest(
                replica_id=-1, topics=_topics({tp: times[tp] for tp in tps})
            )
            if version >= 2:
                request.isolation_level = int(read_committed)
            return request

        return Call(ListOffsetsRequest, build, _read_offsets)

    return router.gather(times, Leader, call, deadline, attempts=attempts)


def _topics(times: Mapping[TopicPartition, int]) -> list[ListOffsetsTopic]:
    topics: dict[str, ListOffsetsTopic] = {}
    for tp, time_ms in times.items():
        topic = topics.setdefault(tp.topic, ListOffsetsTopic(name=tp.topic, partitions=[]))
        topic.partitions.append(
            ListOffsetsPartition(partition_index=tp.partition, timestamp=time_ms)
        )
    return list(topics.values())


def _read_offsets(answer: Message) -> Mapping[TopicPartition, OffsetAt | KafkaError]:
    assert isinstance(answer, ListOffsetsResponse)
    found: dict[TopicPartition, OffsetAt | KafkaError] = {}
    for topic in answer.topics:
        for each in topic.partitions:
            tp = TopicPartition(topic.name, each.partition_index)
            if each.error_code:
                what = f"looking for an offset of {tp.topic}[{tp.partition}]"
                found[tp] = broker_error(each.error_code, what, topic=tp.topic)
            elif each.old_style_offsets:
                found[tp] = OffsetAt(each.old_style_offsets[0])
            else:
                found[tp] = OffsetAt(each.offset, each.timestamp, each.leader_epoch)
    return found


def epoch_ends(
    router: Router,
    epochs: Mapping[TopicPartition, tuple[int, int]],
    deadline: Deadline,
    *,
    attempts: int | None = None,
) -> dict[TopicPartition, EpochEnd | KafkaError]:
    """Where the epoch of the last record read ends on the leader now (KIP-320).

    ``epochs`` gives for each partition the current leader's epoch and the one asked about.
    """

    def call(tps: Sequence[TopicPartition]) -> Call[Mapping[TopicPartition, EpochEnd | KafkaError]]:
        def build(version: int) -> Message:
            topics: dict[str, OffsetForLeaderTopic] = {}
            for tp in tps:
                topic = topics.setdefault(
                    tp.topic, OffsetForLeaderTopic(topic=tp.topic, partitions=[])
                )
                current, wanted = epochs[tp]
                topic.partitions.append(
                    OffsetForLeaderPartition(
                        partition=tp.partition, current_leader_epoch=current, leader_epoch=wanted
                    )
                )
            request = OffsetForLeaderEpochRequest(topics=list(topics.values()))
            if version >= 3:
                request.replica_id = -1
            return request

        return Call(OffsetForLeaderEpochRequest, build, _read_ends)

    return router.gather(epochs, Leader, call, deadline, attempts=attempts)


def _read_ends(answer: Message) -> Mapping[TopicPartition, EpochEnd | KafkaError]:
    assert isinstance(answer, OffsetForLeaderEpochResponse)
    found: dict[TopicPartition, EpochEnd | KafkaError] = {}
    for topic in answer.topics:
        for each in topic.partitions:
            tp = TopicPartition(topic.topic, each.partition)
            if each.error_code:
                what = f"checking {tp.topic}[{tp.partition}] for truncation"
                found[tp] = broker_error(each.error_code, what, topic=tp.topic)
            else:
                found[tp] = EpochEnd(each.leader_epoch, each.end_offset)
    return found

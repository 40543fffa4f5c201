"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords: where logs begin, end and diverge."""

from __future__ import annotations

from kclient.protocol import Message
from kclient.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kclient.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kclient.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kclient.testing.fake.call import Call
from kclient.testing.fake.codes import Refusal
from kclient.testing.fake.handlers.registry import handles
from kclient.testing.fake.log import UNKNOWN, PartitionLog

_LATEST, _EARLIEST, _NEWEST, _EARLIEST_LOCAL, _LATEST_TIERED = -1, -2, -3, -4, -5
_READ_COMMITTED = 1
_TO_THE_END = -1


@handles(ListOffsetsRequest, itemised=True)
def list_offsets(call: Call, request: ListOffsetsRequest) -> Message:
    """Tell an offset for each partition and timestamp (ms, or a negative for a special one)."""
    topics = [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                _list_offset(call, topic.name, wants, request.isolation_level)
                for wants in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return ListOffsetsResponse(topics=topics)


def _list_offset(
    call: Call, topic: str, wants: ListOffsetsPartition, isolation: int
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=wants.partition_index)
    try:
        partition = call.partition(call.topic(topic), wants.partition_index)
        partition.check_epoch(wants.current_leader_epoch)
    except Refusal as refusal:
        answer.error_code = refusal.code
        return answer
    end = partition.log.last_stable_offset if isolation == _READ_COMMITTED else partition.log.end
    offset, timestamp, epoch = _find(partition.log, wants.timestamp, end)
    if call.version == 0:
        answer.old_style_offsets = [offset] if offset != UNKNOWN else []
        return answer
    answer.offset, answer.timestamp = offset, timestamp
    if call.version >= 4:
        answer.leader_epoch = epoch if offset != UNKNOWN else UNKNOWN
    return answer


def _find(log: PartitionLog, timestamp: int, end: int) -> tuple[int, int, int]:
    """Offset, timestamp, leader epoch."""
    current = log.epochs[-1][0] if log.epochs else UNKNOWN
    if timestamp == _LATEST:
        return end, UNKNOWN, current
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        first = log.batches[0].header.leader_epoch if log.batches else current
        return log.start, UNKNOWN, first
    if timestamp == _NEWEST:
        return log.offset_of_newest()
    if timestamp == _LATEST_TIERED:
        return UNKNOWN, UNKNOWN, UNKNOWN
    return log.offset_for_time(timestamp, end)


@handles(OffsetForLeaderEpochRequest, itemised=True)
def offset_for_leader_epoch(call: Call, request: OffsetForLeaderEpochRequest) -> Message:
    """Tell where each leader epoch ended, so that a reader notices a truncation."""
    topics = [
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[_end_of_epoch(call, topic.topic, wants) for wants in topic.partitions],
        )
        for topic in request.topics
    ]
    return OffsetForLeaderEpochResponse(topics=topics)


def _end_of_epoch(call: Call, topic: str, wants: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wants.partition)
    try:
        partition = call.partition(call.topic(topic), wants.partition)
        partition.check_epoch(wants.current_leader_epoch)
    except Refusal as refusal:
        answer.error_code = refusal.code
        return answer
    answer.leader_epoch, answer.end_offset = partition.log.end_of_epoch(wants.leader_epoch)
    return answer


@handles(DeleteRecordsRequest, itemised=True)
def delete_records(call: Call, request: DeleteRecordsRequest) -> Message:
    """Forget records up to an offset, -1 for all."""
    topics = [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[_delete_before(call, topic.name, wants) for wants in topic.partitions],
        )
        for topic in request.topics
    ]
    return DeleteRecordsResponse(topics=topics)


def _delete_before(
    call: Call, topic: str, wants: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(partition_index=wants.partition_index, low_watermark=-1)
    try:
        log = call.partition(call.topic(topic), wants.partition_index).log
        log.delete_before(log.end if wants.offset == _TO_THE_END else wants.offset)
    except Refusal as refusal:
        answer.error_code = refusal.code
        return answer
    answer.low_watermark = log.start
    return answer

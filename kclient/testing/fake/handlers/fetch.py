"""Fetch: records out of logs, with long-poll, sessions and the news of leaders."""

from __future__ import annotations

import time
from itertools import groupby

from kclient.protocol import Message
from kclient.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from kclient.testing.fake.call import Call
from kclient.testing.fake.codes import Code, Refusal
from kclient.testing.fake.fetch_sessions import PartitionKey, wanted
from kclient.testing.fake.handlers.leadership import endpoints, new_leader
from kclient.testing.fake.handlers.registry import handles
from kclient.testing.fake.log import StoredBatch, older_format
from kclient.testing.fake.topics import Partition, Topic

_READ_COMMITTED = 1
_SESSION_ERRORS = (
    Code.FETCH_SESSION_ID_NOT_FOUND,
    Code.INVALID_FETCH_SESSION_EPOCH,
    Code.FETCH_SESSION_TOPIC_ID_ERROR,
    Code.INCONSISTENT_CLUSTER_ID,
)
_Found = list[tuple[PartitionKey, PartitionData]]


@handles(FetchRequest, itemised=True)
def fetch(call: Call, request: FetchRequest) -> Message:
    """Wait for ``min_bytes`` up to ``max_wait_ms``, and return what there is."""
    for code, _ in call.errors:
        if code in _SESSION_ERRORS:
            raise Refusal(code)
    session = call.node.fetch_sessions.open(request, call.version)
    partitions = wanted(request) if session is None else session.partitions
    found = _await_records(call, request, partitions)
    if session is not None:
        is_full = request.session_epoch == 0
        found = [item for item in found if session.is_news(*item) or is_full]
    leaders = [data.current_leader.leader_id for _, data in found]
    return FetchResponse(
        session_id=session.id if session is not None else 0,
        responses=_by_topic(found),
        node_endpoints=endpoints(call, leaders if call.version >= 16 else (), NodeEndpoint),
    )


def _await_records(
    call: Call, request: FetchRequest, partitions: dict[PartitionKey, FetchPartition]
) -> _Found:
    end = time.monotonic() + request.max_wait_ms / 1000
    found: _Found = []

    def is_enough() -> bool:
        nonlocal found
        found = _read_all(call, request, partitions)
        size = sum(len(data.records or b"") for _, data in found)
        return size >= request.min_bytes or any(_is_urgent(data) for _, data in found)

    call.wait_until(is_enough, end - time.monotonic())
    return found


def _is_urgent(data: PartitionData) -> bool:
    """Whether an answer goes out at once, however few bytes it has."""
    return bool(
        data.error_code or data.diverging_epoch.epoch >= 0 or data.preferred_read_replica >= 0
    )


def _read_all(
    call: Call, request: FetchRequest, partitions: dict[PartitionKey, FetchPartition]
) -> _Found:
    found: _Found = []
    left = request.max_bytes if call.version >= 3 else 0x7FFFFFFF
    is_empty = True
    for key, wants in partitions.items():
        data = _read_partition(call, request, key, wants, left, is_empty)
        size = len(data.records or b"")
        left -= size
        is_empty = is_empty and not size
        found.append((key, data))
    return found


def _read_partition(
    call: Call,
    request: FetchRequest,
    key: PartitionKey,
    wants: FetchPartition,
    left: int,
    is_first: bool,
) -> PartitionData:
    topic: Topic | None = None
    data = PartitionData(
        partition_index=key.partition, high_watermark=-1, aborted_transactions=None, records=b""
    )
    try:
        topic = call.topic(key.topic, key.topic_id if call.version >= 13 else None)
        partition = call.partition(topic, key.partition, follower=call.version >= 11)
        partition.check_epoch(wants.current_leader_epoch)
        _fill(call, request, partition, wants, data, min(left, wants.partition_max_bytes), is_first)
    except Refusal as refusal:
        data = PartitionData(
            partition_index=key.partition,
            error_code=refusal.code,
            high_watermark=-1,
            aborted_transactions=None,
            records=b"",
        )
        led = new_leader(topic, key.partition, refusal.code)
        if led is not None and call.version >= 12:
            data.current_leader = LeaderIdAndEpoch(
                leader_id=led.leader, leader_epoch=led.leader_epoch
            )
    return data


def _fill(
    call: Call,
    request: FetchRequest,
    partition: Partition,
    wants: FetchPartition,
    data: PartitionData,
    limit: int,
    is_first: bool,
) -> None:
    """Put records, or what a reader has to know instead of them, into ``data``."""
    log = partition.log
    data.high_watermark = log.end
    data.last_stable_offset = log.last_stable_offset
    data.log_start_offset = log.start
    closer = _closer_replica(call, request, partition)
    if closer is not None:
        data.preferred_read_replica = closer
        return
    if call.version >= 12 and wants.last_fetched_epoch >= 0:
        epoch, end = log.end_of_epoch(wants.last_fetched_epoch)
        if epoch < 0:
            raise Refusal(Code.OFFSET_OUT_OF_RANGE)
        if epoch < wants.last_fetched_epoch or end < wants.fetch_offset:
            data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end)
            return
    if not log.start <= wants.fetch_offset <= log.end:
        raise Refusal(Code.OFFSET_OUT_OF_RANGE)
    committed = request.isolation_level == _READ_COMMITTED
    end = log.last_stable_offset if committed else log.end
    batches = log.read(wants.fetch_offset, end, limit, at_least_one=is_first or call.version < 3)
    data.records = _as_bytes(call.version, batches, limit)
    if committed and batches:
        aborted = log.aborted_between(wants.fetch_offset, batches[-1].last_offset + 1)
        data.aborted_transactions = [
            AbortedTransaction(producer_id=gone.producer_id, first_offset=gone.first_offset)
            for gone in aborted
        ]
    elif committed:
        data.aborted_transactions = []


def _closer_replica(call: Call, request: FetchRequest, partition: Partition) -> int | None:
    """A live follower in the reader's rack, if the leader is asked from elsewhere (KIP-392)."""
    leader = partition.leader
    if call.version < 11 or not request.rack_id or leader != call.node.id:
        return None
    if call.node.rack == request.rack_id:
        return None
    nodes = [call.state.node(node) for node in partition.replicas]
    near = [node.id for node in nodes if node.is_alive and node.rack == request.rack_id]
    return near[0] if near else None


def _as_bytes(version: int, batches: list[StoredBatch], limit: int) -> bytes:
    if version >= 4:
        return b"".join(batch.data for batch in batches)
    data = older_format(batches, 1 if version >= 2 else 0)
    # Before KIP-74 a broker cut anywhere, and a consumer had to ask for more.
    return data if version == 3 else data[:limit]


def _by_topic(found: _Found) -> list[FetchableTopicResponse]:
    ordered = sorted(found, key=lambda item: (item[0].topic, item[0].topic_id.int))
    return [
        FetchableTopicResponse(
            topic=name, topic_id=topic_id, partitions=[data for _, data in items]
        )
        for (name, topic_id), items in groupby(ordered, key=lambda item: item[0][:2])
    ]

"""Produce: records into logs."""

from __future__ import annotations

import time

from kclient.compression import Codec
from kclient.protocol import Message
from kclient.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kclient.records import RecordBatch
from kclient.testing.fake.call import Call, HangUp
from kclient.testing.fake.codes import Code, Refusal
from kclient.testing.fake.handlers.leadership import endpoints, new_leader
from kclient.testing.fake.handlers.registry import handles
from kclient.testing.fake.log import check_batches
from kclient.testing.fake.topics import Partition, Topic
from kclient.testing.fake.transactions import ProducerIdentity
from kclient.types import TopicPartition

_NO_ACKS, _ONE_ACK, _ALL_ACKS = 0, 1, -1
_PRODUCE = 0


@handles(ProduceRequest, itemised=True)
def produce(call: Call, request: ProduceRequest) -> Message | None:
    """Append each partition's records, or say why not; without acks no answer is sent.

    A producer that wants no answer learns of an error by the end of the connection.
    """
    responses = [_produce_topic(call, topic, request) for topic in request.topic_data]
    answers = [answer for topic in responses for answer in topic.partition_responses]
    call.state.changed.notify_all()
    if request.acks == _NO_ACKS:
        if any(answer.error_code for answer in answers):
            raise HangUp
        return None
    leaders = [answer.current_leader.leader_id for answer in answers]
    return ProduceResponse(
        responses=responses, node_endpoints=endpoints(call, leaders, NodeEndpoint)
    )


def _produce_topic(
    call: Call, data: TopicProduceData, request: ProduceRequest
) -> TopicProduceResponse:
    topic, code = None, 0
    try:
        topic = call.topic(data.name, data.topic_id if call.version >= 13 else None)
    except Refusal as refusal:
        code = refusal.code
    answers = [
        _produce_partition(call, topic, code, partition, request)
        for partition in data.partition_data
    ]
    return TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=answers)


def _produce_partition(
    call: Call,
    topic: Topic | None,
    code: int,
    data: PartitionProduceData,
    request: ProduceRequest,
) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1)
    if topic is None:
        return answer
    try:
        partition = call.partition(topic, data.index)
        answer.base_offset = _append(call, topic, partition, data, request)
        answer.log_start_offset = partition.log.start
    except Refusal as refusal:
        answer.error_code = refusal.code
        led = new_leader(topic, data.index, refusal.code)
        if led is not None and call.version >= 10:
            answer.current_leader = LeaderIdAndEpoch(
                leader_id=led.leader, leader_epoch=led.leader_epoch
            )
    return answer


def _append(
    call: Call,
    topic: Topic,
    partition: Partition,
    data: PartitionProduceData,
    request: ProduceRequest,
) -> int:
    """Check the records as a broker does, and append them; returns the first offset."""
    if request.acks not in (_NO_ACKS, _ONE_ACK, _ALL_ACKS):
        raise Refusal(Code.INVALID_REQUIRED_ACKS)
    in_sync = [node for node in partition.replicas if node in call.state.alive]
    if request.acks == _ALL_ACKS and len(in_sync) < call.state.settings.min_insync_replicas:
        raise Refusal(Code.NOT_ENOUGH_REPLICAS)
    batches = check_batches(data.records or b"")
    _check_format(call, topic, batches, len(data.records or b""))
    batch = batches[0]
    if batch.producer_id >= 0 and min(batch.producer_epoch, batch.base_sequence) < 0:
        raise Refusal(Code.INVALID_RECORD)
    if batch.producer_id < 0:
        return partition.log.append(data.records or b"", partition.leader_epoch)
    if batch.is_transactional:
        _join_transaction(call, request, batch, TopicPartition(topic.name, partition.index))
    newest = call.node.versions[_PRODUCE][1]
    # Produce v8 came with Kafka 2.4, just before KIP-360 changed what an unknown producer gets.
    written = partition.log.sequences.check(batch, before_kip_360=newest < 8)
    if written is not None:
        return written
    offset = partition.log.append(data.records or b"", partition.leader_epoch)
    partition.log.sequences.remember(batch, offset)
    return offset


def _join_transaction(
    call: Call, request: ProduceRequest, batch: RecordBatch, tp: TopicPartition
) -> None:
    """Check that the partition is in the producer's transaction; since v12 it gets there so."""
    transactions = call.state.transactions
    producer = ProducerIdentity(batch.producer_id, batch.producer_epoch)
    transaction = transactions.check(
        request.transactional_id or "", producer, Code.INVALID_PRODUCER_EPOCH
    )
    if call.version >= 12:
        transactions.add(transaction, time.monotonic(), partitions=[tp])
    elif tp not in transaction.partitions:
        old = call.version < 11  # TRANSACTION_ABORTABLE came with Produce v11 (KIP-890)
        raise Refusal(Code.INVALID_TXN_STATE if old else Code.TRANSACTION_ABORTABLE)


def _check_format(call: Call, topic: Topic, batches: list[RecordBatch], size: int) -> None:
    limit = int(topic.configs.get("max.message.bytes", call.state.settings.max_message_bytes))
    if size > limit:
        raise Refusal(Code.MESSAGE_TOO_LARGE)
    if call.version >= 3 and (len(batches) != 1 or batches[0].magic != 2):
        raise Refusal(Code.INVALID_RECORD)
    if call.version < 7 and any(batch.codec == Codec.ZSTD for batch in batches):
        raise Refusal(Code.UNSUPPORTED_COMPRESSION_TYPE)

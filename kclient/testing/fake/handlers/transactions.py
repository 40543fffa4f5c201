"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn."""

from __future__ import annotations

import time

from kclient.protocol import Message
from kclient.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from kclient.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kclient.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kclient.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kclient.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kclient.testing.fake.call import Call
from kclient.testing.fake.codes import Code, Refusal
from kclient.testing.fake.groups.offsets import Committed
from kclient.testing.fake.handlers.registry import code_of, handles
from kclient.testing.fake.transactions import ProducerIdentity
from kclient.types import TopicPartition


def _fenced(version: int, since: int) -> Code:
    """How a fenced producer is told so: by a code of its own since KIP-588."""
    return Code.PRODUCER_FENCED if version >= since else Code.INVALID_PRODUCER_EPOCH


@handles(InitProducerIdRequest)
def init_producer_id(call: Call, request: InitProducerIdRequest) -> Message:
    """Give out a producer id and epoch."""
    if request.transactional_id is not None:
        call.coordinate(request.transactional_id)
    claimed = ProducerIdentity(request.producer_id, request.producer_epoch)
    producer = call.state.transactions.init(
        request.transactional_id,
        request.transaction_timeout_ms,
        claimed,
        _fenced(call.version, 4),
    )
    call.state.changed.notify_all()
    return InitProducerIdResponse(producer_id=producer.id, producer_epoch=producer.epoch)


@handles(AddPartitionsToTxnRequest, itemised=True)
def add_partitions_to_txn(call: Call, request: AddPartitionsToTxnRequest) -> Message:
    """Let a transaction touch partitions; before v4 a request has one transaction."""
    if call.version >= 4:
        results = [
            AddPartitionsToTxnResult(
                transactional_id=wanted.transactional_id, topic_results=_add(call, wanted)
            )
            for wanted in request.transactions
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    one = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_add(call, one))


def _add(call: Call, wanted: AddPartitionsToTxnTransaction) -> list[AddPartitionsToTxnTopicResult]:
    code = code_of(_add_all, call, wanted)
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                for index in topic.partitions
            ],
        )
        for topic in wanted.topics
    ]


def _add_all(call: Call, wanted: AddPartitionsToTxnTransaction) -> None:
    call.coordinate(wanted.transactional_id)
    producer = ProducerIdentity(wanted.producer_id, wanted.producer_epoch)
    transactions = call.state.transactions
    transaction = transactions.check(wanted.transactional_id, producer, _fenced(call.version, 2))
    partitions = _existing(call, wanted.topics)
    if wanted.verify_only:
        if not set(partitions) <= transaction.partitions:
            raise Refusal(Code.TRANSACTION_ABORTABLE)
        return
    transactions.add(transaction, time.monotonic(), partitions=partitions)


def _existing(call: Call, topics: list[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    found = [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]
    for tp in found:
        call.check(tp)
        if not 0 <= tp.partition < len(call.topic(tp.topic).partitions):
            raise Refusal(Code.UNKNOWN_TOPIC_OR_PARTITION)
    return found


@handles(AddOffsetsToTxnRequest)
def add_offsets_to_txn(call: Call, request: AddOffsetsToTxnRequest) -> Message:
    """Let a transaction commit offsets of a group."""
    call.coordinate(request.transactional_id)
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    transactions = call.state.transactions
    transaction = transactions.check(request.transactional_id, producer, _fenced(call.version, 2))
    transactions.add(transaction, time.monotonic(), group=request.group_id)
    return AddOffsetsToTxnResponse()


@handles(TxnOffsetCommitRequest, itemised=True)
def txn_offset_commit(call: Call, request: TxnOffsetCommitRequest) -> Message:
    """Keep offsets until the transaction ends; since v5 the group need not be added before."""
    code = code_of(_commit_in_transaction, call, request)
    topics = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=code
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return TxnOffsetCommitResponse(topics=topics)


def _commit_in_transaction(call: Call, request: TxnOffsetCommitRequest) -> None:
    call.coordinate(request.group_id)
    now = time.monotonic()
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    transactions = call.state.transactions
    transaction = transactions.check(
        request.transactional_id, producer, Code.INVALID_PRODUCER_EPOCH
    )
    if call.version >= 5:
        transactions.add(transaction, now, group=request.group_id)
    elif request.group_id not in transaction.groups:
        raise Refusal(Code.INVALID_TXN_STATE)
    group = call.state.groups.find(request.group_id)
    if group is not None and request.member_id:
        group.check_commit(request.member_id, request.group_instance_id, request.generation_id, now)
    offsets = call.state.groups.offsets(request.group_id)
    for topic in request.topics:
        for item in topic.partitions:
            committed = Committed(
                item.committed_offset, item.committed_leader_epoch, item.committed_metadata or ""
            )
            tp = TopicPartition(topic.name, item.partition_index)
            call.check(tp)
            offsets.commit_later(producer.id, tp, committed)


@handles(EndTxnRequest)
def end_txn(call: Call, request: EndTxnRequest) -> Message:
    """Commit or abort; since v5 the answer has the producer's next epoch (KIP-890)."""
    call.coordinate(request.transactional_id)
    bump = call.version >= 5 and call.state.settings.transaction_version >= 2
    producer = call.state.transactions.end(
        request.transactional_id,
        ProducerIdentity(request.producer_id, request.producer_epoch),
        commit=request.committed,
        bump=bump,
        fenced=_fenced(call.version, 2),
    )
    call.state.changed.notify_all()
    return EndTxnResponse(producer_id=producer.id, producer_epoch=producer.epoch)

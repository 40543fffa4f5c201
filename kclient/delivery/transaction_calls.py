"""The requests of a transaction and how their answers are read; no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kclient.cluster import Call
from kclient.delivery.sequences import NOBODY, ProducerId
from kclient.errors import BrokerError, broker_error
from kclient.protocol import Message
from kclient.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from kclient.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kclient.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kclient.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kclient.types import GroupMetadata, OffsetAndMetadata, TopicPartition

__all__ = [
    "NOBODY",
    "IdCall",
    "ProducerId",
    "add_offsets",
    "add_partitions",
    "commit_offsets",
    "end",
]

IdCall = Call[ProducerId]
_OPERATION_NOT_ATTEMPTED = 55
# The newest versions of the first generation of transactions; those above imply the second.
_FIRST_END, _FIRST_OFFSETS = 4, 4


def add_partitions(
    transactional_id: str, owner: ProducerId, partitions: Iterable[TopicPartition]
) -> Call[None]:
    """Add partitions to the transaction; clients speak v3, later ones are for brokers."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)

    def build(version: int) -> Message:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=owner.number,
            v3_and_below_producer_epoch=owner.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=numbers)
                for topic, numbers in by_topic.items()
            ],
        )

    def read(answer: Message) -> None:
        assert isinstance(answer, AddPartitionsToTxnResponse)
        codes = {
            each.partition_error_code: f"{topic.name}[{each.partition_index}]"
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }
        codes.pop(0, None)
        # Partitions beside a bad one say only that they were not tried.
        for code in sorted(codes, key=lambda code: code == _OPERATION_NOT_ATTEMPTED):
            raise _error(code, transactional_id, f"adding {codes[code]} to the transaction")

    return Call(AddPartitionsToTxnRequest, build, read, at_most=3)


def add_offsets(transactional_id: str, owner: ProducerId, group_id: str) -> IdCall:
    """Add a group's offsets to the transaction."""

    def build(version: int) -> Message:
        return AddOffsetsToTxnRequest(
            transactional_id=transactional_id,
            producer_id=owner.number,
            producer_epoch=owner.epoch,
            group_id=group_id,
        )

    def read(answer: Message) -> ProducerId:
        assert isinstance(answer, AddOffsetsToTxnResponse)
        if answer.error_code:
            what = f"adding the offsets of group {group_id!r} to the transaction"
            raise _error(answer.error_code, transactional_id, what)
        return owner

    return Call(AddOffsetsToTxnRequest, build, read)


def commit_offsets(
    transactional_id: str,
    owner: ProducerId,
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    implicit: bool,
) -> Call[None]:
    """Write offsets that count when the transaction is committed."""

    def build(version: int) -> Message:
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=group.group_id,
            producer_id=owner.number,
            producer_epoch=owner.epoch,
            topics=_offset_topics(offsets),
        )
        if version >= 3:
            request.generation_id = group.generation_id
            request.member_id = group.member_id
            request.group_instance_id = group.group_instance_id
        return request

    def read(answer: Message) -> None:
        assert isinstance(answer, TxnOffsetCommitResponse)
        for topic in answer.topics:
            for each in topic.partitions:
                if each.error_code:
                    what = (
                        f"committing {topic.name}[{each.partition_index}] of group "
                        f"{group.group_id!r} in the transaction"
                    )
                    raise _error(each.error_code, transactional_id, what)

    return Call(TxnOffsetCommitRequest, build, read, at_most=None if implicit else _FIRST_OFFSETS)


def end(transactional_id: str, owner: ProducerId, *, commit: bool, second: bool) -> IdCall:
    """End the transaction; in the second generation the answer holds the next epoch."""

    def build(version: int) -> Message:
        return EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=owner.number,
            producer_epoch=owner.epoch,
            committed=commit,
        )

    def read(answer: Message) -> ProducerId:
        assert isinstance(answer, EndTxnResponse)
        if answer.error_code:
            what = f"{'committing' if commit else 'aborting'} the transaction"
            raise _error(answer.error_code, transactional_id, what)
        return ProducerId(answer.producer_id, answer.producer_epoch)

    return Call(EndTxnRequest, build, read, at_most=None if second else _FIRST_END)


def _offset_topics(
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> list[TxnOffsetCommitRequestTopic]:
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for tp, (offset, metadata, epoch) in sorted(offsets.items()):
        topic = topics.setdefault(
            tp.topic, TxnOffsetCommitRequestTopic(name=tp.topic, partitions=[])
        )
        topic.partitions.append(
            TxnOffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=offset,
                committed_leader_epoch=epoch,
                committed_metadata=metadata,
            )
        )
    return list(topics.values())


def _error(code: int, transactional_id: str, what: str) -> BrokerError:
    return broker_error(
        code, f"transactional id {transactional_id!r}: {what}", transactional_id=transactional_id
    )

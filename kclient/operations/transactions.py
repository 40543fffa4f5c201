"""Transactions and the producers behind them: found, described, ended by force (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kclient.cluster.call import Call
from kclient.cluster.target import Coordinator, CoordinatorKind, Leader
from kclient.errors import InvalidRequest, KafkaError
from kclient.operations.given import need, numbers_by_topic, partitions, several
from kclient.operations.many import (
    COORDINATOR_CODES,
    LEADER_CODES,
    CallFor,
    Many,
    Results,
    check,
    failed,
    outcome,
    reading,
)
from kclient.protocol.messages import describe_transactions as described
from kclient.protocol.messages import list_transactions as listed
from kclient.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from kclient.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kclient.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kclient.types import TopicPartition

_CONCURRENT_TRANSACTIONS = 51


@dataclass(frozen=True)
class TransactionListing:
    """A transactional id. ``state`` is Kafka's word: ``Ongoing``, ``CompleteCommit``, ..."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True)
class TransactionDescription:
    """A transactional id and the transaction it is in; ``start_timestamp`` is ms or None."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_timestamp: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class ProducerState:
    """A producer that writes to a partition; ``last_timestamp`` is ms.

    ``transaction_start_offset`` is where its open transaction begins there, if it has one.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    transaction_start_offset: int | None


class ProducerIdAndEpoch(NamedTuple):
    """The id and epoch that a producer must have now; one with an older epoch is fenced."""

    producer_id: int
    epoch: int


def coordinator_of(transactional_id: str) -> Coordinator:
    """Where a transactional id is kept."""
    return Coordinator(CoordinatorKind.TRANSACTION, transactional_id)


# --- list and describe ---


def listing(
    states: Iterable[str],
    producer_ids: Iterable[int],
    longer_than_ms: int | None,
    pattern: str | None,
) -> Call[list[TransactionListing]]:
    """The transactional ids that one broker coordinates."""
    wanted, ids = several(states, "states"), several(producer_ids, "producer ids")

    def build(version: int) -> listed.ListTransactionsRequest:
        if longer_than_ms is not None:
            need(version, 1, "list transactions by their age", "3.8")
        if pattern is not None:
            need(version, 2, "list transactions by a pattern of their ids", "4.1")
        return listed.ListTransactionsRequest(
            state_filters=wanted,
            producer_id_filters=ids,
            duration_filter=-1 if longer_than_ms is None else longer_than_ms,
            transactional_id_pattern=pattern,
        )

    def read(answer: listed.ListTransactionsResponse) -> list[TransactionListing]:
        check(answer.error_code, "transactions were not listed", again=COORDINATOR_CODES)
        if answer.unknown_state_filters:
            raise InvalidRequest(f"Kafka knows no states {answer.unknown_state_filters}")
        return [
            TransactionListing(row.transactional_id, row.producer_id, row.transaction_state)
            for row in answer.transaction_states
        ]

    return Call(
        listed.ListTransactionsRequest, build, reading(listed.ListTransactionsResponse, read)
    )


def describe(given: Iterable[str]) -> Many[str, TransactionDescription]:
    """Transactional ids and the transactions they are in."""

    def call(items: Sequence[str], timeout_ms: int) -> CallFor[str, TransactionDescription]:
        def build(version: int) -> described.DescribeTransactionsRequest:
            return described.DescribeTransactionsRequest(transactional_ids=list(items))

        def read(
            answer: described.DescribeTransactionsResponse,
        ) -> Results[str, TransactionDescription]:
            return {row.transactional_id: _transaction(row) for row in answer.transaction_states}

        read_any = reading(described.DescribeTransactionsResponse, read)
        return Call(described.DescribeTransactionsRequest, build, read_any)

    ids = several(given, "transactional ids")
    return Many("describing transactions", ids, call, coordinator_of)


def _transaction(row: described.TransactionState) -> TransactionDescription | KafkaError:
    if row.error_code:
        what = f"transactional id {row.transactional_id!r} was not described"
        return failed(row.error_code, what, again=COORDINATOR_CODES)
    started = row.transaction_start_time_ms
    return TransactionDescription(
        row.transactional_id,
        row.transaction_state,
        row.producer_id,
        row.producer_epoch,
        row.transaction_timeout_ms,
        started if started >= 0 else None,
        tuple(
            TopicPartition(topic.topic, number)
            for topic in row.topics
            for number in topic.partitions
        ),
    )


def describe_producers(
    given: Iterable[TopicPartition],
) -> Many[TopicPartition, tuple[ProducerState, ...]]:
    """Who writes to partitions, and has done so of late."""

    def call(
        items: Sequence[TopicPartition], timeout_ms: int
    ) -> CallFor[TopicPartition, tuple[ProducerState, ...]]:
        def build(version: int) -> DescribeProducersRequest:
            return DescribeProducersRequest(
                topics=[
                    TopicRequest(name=topic, partition_indexes=numbers)
                    for topic, numbers in numbers_by_topic(items).items()
                ]
            )

        def read(
            answer: DescribeProducersResponse,
        ) -> Results[TopicPartition, tuple[ProducerState, ...]]:
            return {
                TopicPartition(topic.name, row.partition_index): _producers(topic.name, row)
                for topic in answer.topics
                for row in topic.partitions
            }

        return Call(DescribeProducersRequest, build, reading(DescribeProducersResponse, read))

    return Many("describing producers", partitions(given), call, Leader)


def _producers(topic: str, row: PartitionResponse) -> tuple[ProducerState, ...] | KafkaError:
    if row.error_code:
        what = f"the producers of {topic}[{row.partition_index}] were not told"
        return failed(row.error_code, what, row.error_message, again=LEADER_CODES)
    return tuple(
        ProducerState(
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.coordinator_epoch if each.coordinator_epoch >= 0 else None,
            each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
        )
        for each in row.active_producers
    )


# --- end by force ---


def abort(tp: TopicPartition, producer: ProducerState) -> Many[TopicPartition, None]:
    """Write the end of a transaction into one partition, where its coordinator forgot to."""

    def call(items: Sequence[TopicPartition], timeout_ms: int) -> CallFor[TopicPartition, None]:
        def build(version: int) -> WriteTxnMarkersRequest:
            topic = WritableTxnMarkerTopic(name=tp.topic, partition_indexes=[tp.partition])
            marker = WritableTxnMarker(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                transaction_result=False,
                topics=[topic],
                coordinator_epoch=producer.coordinator_epoch or 0,
            )
            return WriteTxnMarkersRequest(markers=[marker])

        def read(answer: WriteTxnMarkersResponse) -> Results[TopicPartition, None]:
            row = answer.markers[0].topics[0].partitions[0]
            what = f"the transaction of producer {producer.producer_id} in {tp} was not aborted"
            return {tp: outcome(row.error_code, what, again=LEADER_CODES)}

        return Call(WriteTxnMarkersRequest, build, reading(WriteTxnMarkersResponse, read))

    return Many("aborting a transaction", partitions([tp]), call, Leader)


def fence(transactional_id: str) -> Many[str, ProducerIdAndEpoch]:
    """Shut out whoever uses a transactional id, and abort its transaction."""

    def call(items: Sequence[str], timeout_ms: int) -> CallFor[str, ProducerIdAndEpoch]:
        def build(version: int) -> InitProducerIdRequest:
            return InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
            )

        def read(answer: InitProducerIdResponse) -> Results[str, ProducerIdAndEpoch]:
            what = f"transactional id {transactional_id!r} was not fenced"
            again = COORDINATOR_CODES | {_CONCURRENT_TRANSACTIONS}
            check(answer.error_code, what, again=again)
            made = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
            return {transactional_id: made}

        return Call(InitProducerIdRequest, build, reading(InitProducerIdResponse, read))

    return Many("fencing producers", [transactional_id], call, coordinator_of)

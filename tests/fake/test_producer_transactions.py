"""Transactions of both generations, and everything that can go wrong in one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from kclient import GroupMetadata, OffsetAndMetadata, TopicPartition
from kclient.delivery.transaction import State
from kclient.errors import (
    BrokerError,
    ConfigError,
    KafkaTimeout,
    NotAuthorized,
    ProducerFenced,
    TransactionFailed,
    TransactionLost,
    UnsupportedVersion,
)
from kclient.records import batches, read_batch
from kclient.testing import FakeCluster
from kclient.testing.fake import (
    Fault,
    close_after,
    close_before,
    delay,
    drop,
    error_code,
    move_coordinator,
    move_leader,
)

from .producing import TOPIC, TP, quick

Start = Callable[..., FakeCluster]
GROUP = GroupMetadata("readers")
SOURCE = TopicPartition("source", 0)
TRANSACTIONAL: dict[str, Any] = {"transactional_id": "t"}


@pytest.fixture(params=[0, 2], ids=["first", "second"])
def cluster(request: pytest.FixtureRequest, fake_cluster: Start) -> FakeCluster:
    """A cluster of each generation of transactions."""
    topics = {TOPIC: 2, "source": 1}
    return fake_cluster(brokers=3, topics=topics, transaction_version=request.param)


def committed(cluster: FakeCluster, tp: TopicPartition = TP) -> list[bytes | None]:
    """What a reader of committed records gets."""
    log = cluster._state.partition(tp).log
    found: list[bytes | None] = []
    for stored in log.batches:
        gone = any(
            each.producer_id == stored.header.producer_id
            and each.first_offset <= stored.base_offset <= each.last_offset
            for each in log.aborted
        )
        if gone or stored.header.is_control or stored.base_offset >= log.last_stable_offset:
            continue
        found += [record.value for batch in batches(stored.data) for record in read_batch(batch)]
    return found


def test_committed_and_aborted(cluster: FakeCluster) -> None:
    with quick(cluster, **TRANSACTIONAL) as producer:
        for turn in range(4):
            producer.begin_transaction()
            producer.send(TOPIC, b"send %d" % turn, partition=0)
            future = producer.submit(TOPIC, b"submit %d" % turn, partition=0)
            producer.send_many(TOPIC, [b"many %d" % turn])
            if turn % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
            assert future.done()
    found = committed(cluster) + committed(cluster, TopicPartition(TOPIC, 1))
    kinds = (b"send %d", b"submit %d", b"many %d")
    assert sorted(value or b"" for value in found) == sorted(
        kind % turn for turn in (0, 2) for kind in kinds
    )


def test_commit_sends_what_is_queued_first(cluster: FakeCluster) -> None:
    with quick(cluster, linger_ms=10_000, **TRANSACTIONAL) as producer:
        producer.begin_transaction()
        futures = [producer.submit(TOPIC, b"%d" % n, partition=0) for n in range(3)]
        producer.commit_transaction()
        assert [future.result(0).offset for future in futures] == [0, 1, 2]
    assert committed(cluster) == [b"0", b"1", b"2"]


def test_abort_drops_what_is_queued(cluster: FakeCluster) -> None:
    with quick(cluster, linger_ms=10_000, **TRANSACTIONAL) as producer:
        producer.begin_transaction()
        future = producer.submit(TOPIC, b"dropped", partition=0)
        producer.abort_transaction()
        assert isinstance(future.exception(0), TransactionFailed)
        with producer.transaction():
            producer.submit(TOPIC, b"kept", partition=0)
        producer.flush()
    assert [record.value for record in cluster.records(TP)] == [b"kept"]
    assert committed(cluster) == [b"kept"]


def test_generations_speak_their_own_requests(cluster: FakeCluster) -> None:
    second = cluster._settings.transaction_version >= 2
    with quick(cluster, **TRANSACTIONAL) as producer:
        for _ in range(2):
            with producer.transaction():
                producer.send(TOPIC, b"", partition=0)
                producer.send_offsets_to_transaction({SOURCE: 5}, GROUP)
    assert bool(cluster.requests("AddPartitionsToTxn")) is not second
    assert bool(cluster.requests("AddOffsetsToTxn")) is not second
    assert {seen.version for seen in cluster.requests("EndTxn")} == ({5} if second else {4})
    assert {seen.version for seen in cluster.requests("Produce")} == ({13} if second else {11})
    assert {seen.version for seen in cluster.requests("TxnOffsetCommit")} == (
        {5} if second else {4}
    )
    epochs: list[int] = [seen.message.producer_epoch for seen in cluster.requests("EndTxn")]  # type: ignore[attr-defined]
    assert epochs == ([0, 1] if second else [0, 0])


def test_offsets_count_only_with_the_transaction(cluster: FakeCluster) -> None:
    with quick(cluster, **TRANSACTIONAL) as producer:
        producer.begin_transaction()
        producer.send_offsets_to_transaction({SOURCE: OffsetAndMetadata(5, "note")}, GROUP)
        assert cluster.committed("readers") == {}
        producer.commit_transaction()
        assert cluster.committed("readers") == {SOURCE: 5}
        producer.begin_transaction()
        producer.send_offsets_to_transaction({SOURCE: 9}, GROUP)
        producer.send_offsets_to_transaction({}, GROUP)
        producer.abort_transaction()
    assert cluster.committed("readers") == {SOURCE: 5}


class Reader:
    """A consumer as far as a transaction knows it."""

    def __init__(self) -> None:
        self.at = {SOURCE: 7, TopicPartition("source", 1): 3}
        self.has_committed: dict[TopicPartition, OffsetAndMetadata | None] = {
            SOURCE: OffsetAndMetadata(4)
        }

    def assignment(self) -> Iterable[TopicPartition]:
        return list(self.at)

    def position(self, tp: TopicPartition) -> int:
        return self.at[tp]

    def committed(
        self, tps: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
        return {tp: self.has_committed.get(tp) for tp in tps}

    def seek(self, tp: TopicPartition, offset: int) -> None:
        self.at[tp] = offset

    def seek_to_beginning(self, tps: Iterable[TopicPartition]) -> None:
        self.at.update(dict.fromkeys(tps, 0))

    def group_metadata(self) -> GroupMetadata:
        return GROUP


def test_the_block_commits_with_the_consumers_positions(cluster: FakeCluster) -> None:
    reader = Reader()
    with quick(cluster, **TRANSACTIONAL) as producer:
        with producer.transaction(reader):
            producer.submit(TOPIC, b"1", partition=0)
        assert cluster.committed("readers") == {SOURCE: 7, TopicPartition("source", 1): 3}
        with contextlib.suppress(ZeroDivisionError), producer.transaction(reader):
            producer.send(TOPIC, b"2", partition=0)
            raise ZeroDivisionError
        assert list(reader.at.values()) == [4, 0]
        with producer.transaction():
            producer.send(TOPIC, b"3", partition=0)
    assert committed(cluster) == [b"1", b"3"]


COORDINATOR_FAULTS: dict[str, Fault] = {
    "cut before": close_before(),
    "cut after": close_after(),
    "not the coordinator": error_code(16),
    "loading": error_code(14),
    "another transaction ends": error_code(51),
    "moved": move_coordinator("t", 2),
    "moved on": move_coordinator("t", 3),
}


@pytest.mark.parametrize("api", ["InitProducerId", "AddPartitionsToTxn", "EndTxn"])
@pytest.mark.parametrize("name", COORDINATOR_FAULTS)
def test_the_coordinator_fails_for_a_moment(name: str, api: str, cluster: FakeCluster) -> None:
    fault = cluster.on(api, COORDINATOR_FAULTS[name])
    with quick(cluster, **TRANSACTIONAL) as producer:
        for turn in range(3):
            producer.begin_transaction()
            producer.send(TOPIC, b"%d" % turn, partition=0)
            if turn == 1:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    if not (api == "AddPartitionsToTxn" and cluster._settings.transaction_version == 2):
        assert fault.hits
    assert committed(cluster) == [b"0", b"2"]


@pytest.mark.parametrize(
    "fault", [error_code(7, processed=True), close_after(), close_before(), move_leader(TP, 3)]
)
def test_the_leader_fails_for_a_moment(fault: Fault, cluster: FakeCluster) -> None:
    with quick(cluster, **TRANSACTIONAL) as producer:
        with producer.transaction():
            producer.send(TOPIC, b"0", partition=0)
        met = cluster.on("Produce", fault)
        with producer.transaction():
            producer.send(TOPIC, b"1", partition=0)
            producer.send(TOPIC, b"2", partition=0)
    assert met.hits
    assert committed(cluster) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("code", [45, 47, 48, 59, 120, 10, 29])
def test_a_record_that_fails_leaves_only_the_way_to_abort(code: int, cluster: FakeCluster) -> None:
    with quick(cluster, **TRANSACTIONAL) as producer:
        producer.begin_transaction()
        producer.send(TOPIC, b"0", partition=0)
        cluster.on("Produce", error_code(code))
        with pytest.raises(BrokerError) as refused:
            producer.send(TOPIC, b"1", partition=0)
        assert refused.value.code == code
        with pytest.raises(TransactionFailed, match="abort_transaction") as failed:
            producer.send(TOPIC, b"2", partition=0)
        assert not isinstance(failed.value, TransactionLost)
        with pytest.raises(TransactionFailed, match="abort_transaction"):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(TOPIC, b"3", partition=0)
    assert committed(cluster) == [b"3"]


def test_a_record_that_fails_during_the_commit(cluster: FakeCluster) -> None:
    with quick(cluster, linger_ms=10_000, **TRANSACTIONAL) as producer:
        producer.begin_transaction()
        producer.submit(TOPIC, b"0", partition=0)
        cluster.on("Produce", error_code(29))
        with pytest.raises(TransactionFailed, match="abort_transaction"):
            producer.commit_transaction()
        assert not cluster.requests("EndTxn")
        producer.abort_transaction()
        with producer.transaction():
            producer.submit(TOPIC, b"1", partition=0)
    assert committed(cluster) == [b"1"]


def test_partitions_that_cannot_be_added_fail_what_waits_for_them(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1}, transaction_version=0)
    with quick(cluster, linger_ms=10_000, **TRANSACTIONAL) as producer:
        cluster.on("AddPartitionsToTxn", error_code(29))
        producer.begin_transaction()
        future = producer.submit(TOPIC, b"0")
        with pytest.raises(TransactionFailed, match="TOPIC_AUTHORIZATION_FAILED"):
            producer.commit_transaction()
        assert isinstance(future.exception(0), TransactionFailed)
        producer.abort_transaction()
        with producer.transaction():
            producer.send(TOPIC, b"1")
    assert committed(cluster) == [b"1"]


def test_fenced_by_another_producer(cluster: FakeCluster) -> None:
    with (
        quick(cluster, **TRANSACTIONAL) as old,
        quick(cluster, **TRANSACTIONAL) as new,
    ):
        old.begin_transaction()
        old.send(TOPIC, b"old", partition=0)
        new.begin_transaction()
        with pytest.raises(ProducerFenced):
            old.commit_transaction()
        with pytest.raises(TransactionLost, match="make a new one"):
            old.abort_transaction()
        with pytest.raises(TransactionLost):
            old.begin_transaction()
        with pytest.raises(TransactionLost):
            old.send(TOPIC, b"never", partition=0)
        new.send(TOPIC, b"new", partition=0)
        new.commit_transaction()
    assert committed(cluster) == [b"new"]


def test_fenced_while_writing(cluster: FakeCluster) -> None:
    with (
        quick(cluster, **TRANSACTIONAL) as old,
        quick(cluster, **TRANSACTIONAL) as new,
    ):
        old.begin_transaction()
        old.send(TOPIC, b"old", partition=0)
        new.init_transactions()
        with pytest.raises(BrokerError) as refused:
            old.send(TOPIC, b"late", partition=0)
        assert refused.value.code in (47, 90)
        with pytest.raises(ProducerFenced):
            old.abort_transaction()
        assert old._transactional().state is State.LOST
        with new.transaction():
            new.send(TOPIC, b"new", partition=0)
    assert committed(cluster) == [b"new"]


def test_not_allowed_to_use_the_id(cluster: FakeCluster) -> None:
    cluster.on("InitProducerId", error_code(53))
    with quick(cluster, **TRANSACTIONAL) as producer:
        with pytest.raises(NotAuthorized, match="'t'"):
            producer.begin_transaction()
        with pytest.raises(TransactionLost):
            producer.begin_transaction()


@pytest.mark.parametrize("processed", [True, False])
def test_an_end_whose_outcome_is_unknown_is_never_taken_for_done(
    processed: bool, cluster: FakeCluster
) -> None:
    with quick(cluster, request_timeout_ms=100, **TRANSACTIONAL) as producer:
        producer.begin_transaction()
        producer.send(TOPIC, b"0", partition=0)
        lost = cluster.on("EndTxn", drop(processed=processed), times=None)
        with pytest.raises(KafkaTimeout):
            producer.commit_transaction(timeout=0.5)
        with pytest.raises(TransactionFailed, match="commit_transaction again"):
            producer.begin_transaction()
        with pytest.raises(TransactionFailed, match="commit_transaction again"):
            producer.abort_transaction()
        with pytest.raises(TransactionFailed, match="commit_transaction again"):
            producer.send(TOPIC, b"too late", partition=0)
        lost.cancel()
        producer.commit_transaction()
        with producer.transaction():
            producer.send(TOPIC, b"1", partition=0)
    assert committed(cluster) == [b"0", b"1"]


def test_an_abort_may_be_tried_again(cluster: FakeCluster) -> None:
    with quick(cluster, request_timeout_ms=100, **TRANSACTIONAL) as producer:
        producer.begin_transaction()
        producer.send(TOPIC, b"0", partition=0)
        lost = cluster.on("EndTxn", drop(processed=True), times=None)
        with pytest.raises(KafkaTimeout):
            producer.abort_transaction(timeout=0.5)
        lost.cancel()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(TOPIC, b"1", partition=0)
    assert committed(cluster) == [b"1"]


def test_a_commit_that_cannot_send_its_records_may_still_be_aborted(cluster: FakeCluster) -> None:
    with quick(cluster, linger_ms=10_000, **TRANSACTIONAL) as producer:
        with producer.transaction():
            producer.send(TOPIC, b"0", partition=0)
        stuck = cluster.on("Produce", error_code(7), times=None)
        producer.begin_transaction()
        producer.submit(TOPIC, b"1", partition=0)
        with pytest.raises(KafkaTimeout):
            producer.commit_transaction(timeout=0.2)
        producer.abort_transaction()
        stuck.cancel()
        with producer.transaction():
            producer.send(TOPIC, b"2", partition=0)
    assert committed(cluster) == [b"0", b"2"]


def test_a_partition_being_added_is_awaited_before_the_abort(fake_cluster: Start) -> None:
    """Added after the end, it would begin another transaction that nobody ends."""
    cluster = fake_cluster(topics={TOPIC: 1}, transaction_version=0)
    with quick(cluster, linger_ms=0, **TRANSACTIONAL) as producer:
        slow = cluster.on("AddPartitionsToTxn", delay(0.2))
        producer.begin_transaction()
        producer.submit(TOPIC, b"0")
        slow.await_hit()
        producer.abort_transaction()
        apis = [
            seen.api
            for seen in cluster.requests()
            if seen.api in ("AddPartitionsToTxn", "EndTxn", "InitProducerId")
        ]
        assert apis.index("AddPartitionsToTxn") < apis.index("EndTxn")
        with producer.transaction():
            producer.send(TOPIC, b"1")
    assert committed(cluster) == [b"1"]


def test_an_empty_transaction_asks_nobody(cluster: FakeCluster) -> None:
    with quick(cluster, **TRANSACTIONAL) as producer:
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            end()
    assert not cluster.requests("EndTxn")


def test_calls_at_the_wrong_time(cluster: FakeCluster) -> None:
    with quick(cluster) as plain, pytest.raises(ConfigError, match="transactional_id"):
        plain.begin_transaction()
    with quick(cluster, **TRANSACTIONAL) as producer:
        for refused in (
            lambda: producer.send(TOPIC, b""),
            lambda: producer.submit(TOPIC, b""),
            lambda: producer.send_many(TOPIC, [b""]),
            producer.commit_transaction,
            producer.abort_transaction,
            lambda: producer.send_offsets_to_transaction({SOURCE: 1}, GROUP),
        ):
            with pytest.raises(TransactionFailed, match="begin_transaction|nothing to"):
                refused()
        producer.begin_transaction()
        with pytest.raises(TransactionFailed, match="none is open"):
            producer.begin_transaction()
        producer.abort_transaction()


def test_offsets_that_are_refused_fail_the_transaction(cluster: FakeCluster) -> None:
    with quick(cluster, **TRANSACTIONAL) as producer:
        producer.begin_transaction()
        cluster.on("TxnOffsetCommit", error_code(22))
        with pytest.raises(BrokerError, match="ILLEGAL_GENERATION"):
            producer.send_offsets_to_transaction({SOURCE: 1}, GROUP)
        with pytest.raises(TransactionFailed):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send_offsets_to_transaction({SOURCE: 2}, GROUP)
    assert cluster.committed("readers") == {SOURCE: 2}


@pytest.mark.parametrize("init", [0, 2, 3])
def test_brokers_before_transactions_had_epochs(init: int, fake_cluster: Start) -> None:
    speaks = {"InitProducerId": init, "Produce": 7, "EndTxn": 1, "AddPartitionsToTxn": 1}
    cluster = fake_cluster(topics={TOPIC: 1}, transaction_version=0, speaks=speaks)
    with quick(cluster, **TRANSACTIONAL) as producer:
        with producer.transaction():
            producer.send(TOPIC, b"0")
        cluster.on("Produce", error_code(45))
        with pytest.raises(BrokerError), producer.transaction():
            producer.send(TOPIC, b"1")
        with producer.transaction():
            producer.send(TOPIC, b"2")
    assert committed(cluster) == [b"0", b"2"]


def test_brokers_without_transactions(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1}, speaks={"InitProducerId": None})
    with quick(cluster, **TRANSACTIONAL) as producer, pytest.raises(UnsupportedVersion):
        producer.begin_transaction()


def test_a_transaction_that_took_too_long(cluster: FakeCluster) -> None:
    with quick(cluster, transaction_timeout_ms=100, **TRANSACTIONAL) as producer:
        producer.begin_transaction()
        producer.send(TOPIC, b"0", partition=0)
        cluster._state.transactions.tick(float("inf"))
        with pytest.raises(BrokerError) as refused:
            producer.commit_transaction()
        assert refused.value.code in (47, 48, 90)
    assert committed(cluster) == []

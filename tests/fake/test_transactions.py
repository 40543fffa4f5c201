from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kclient import TopicPartition, records
from kclient.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kclient.testing import FakeCluster

from .actors import TV1, TV2, Writer
from .raw import RawClient, only

TP = TopicPartition("orders", 0)


def read_committed(client: RawClient, offset: int = 0) -> PartitionData:
    wants = FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="orders", partitions=[wants])
    request = FetchRequest(isolation_level=1, topics=[topic])
    answer = client.ask(request, 11, FetchResponse)
    found = only(only(answer.responses).partitions)
    assert isinstance(found, PartitionData)
    return found


@pytest.fixture(params=[TV1, TV2], ids=["TV1", "TV2"])
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def cluster(version: int, fake_cluster: Callable[..., FakeCluster]) -> FakeCluster:
    return fake_cluster(topics={"orders": 1}, transaction_version=version)


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[RawClient]:
    with RawClient(cluster.address(1)) as connected:
        yield connected


@pytest.fixture
def writer(client: RawClient, version: int) -> Writer:
    made = Writer(client, version)
    assert made.init() == 0
    return made


def begin(writer: Writer) -> None:
    """Before version 2 a partition has to be added before it is written to."""
    if writer.version == TV1:
        assert writer.add() == 0


def test_readers_of_committed_records_wait_for_the_marker(
    writer: Writer, client: RawClient, cluster: FakeCluster
) -> None:
    begin(writer)
    assert writer.produce(b"a") == 0
    waiting = read_committed(client)
    assert (waiting.last_stable_offset, waiting.high_watermark) == (0, 1)
    assert waiting.records == b""
    assert writer.end(commit=True) == 0
    done = read_committed(client)
    assert (done.last_stable_offset, done.aborted_transactions) == (2, [])
    assert [r.value for r in records.decode(done.records or b"")] == [b"a"]
    kinds = [
        records.control_type(record)
        for batch in records.batches(done.records or b"")
        if batch.is_control
        for record in records.read_batch(batch)
    ]
    assert kinds == [records.ControlType.COMMIT]


def test_an_aborted_transaction_is_listed_with_its_first_offset(
    writer: Writer, client: RawClient
) -> None:
    for value, commit in ((b"a", True), (b"b", False), (b"c", True)):
        begin(writer)
        assert writer.produce(value) == 0
        assert writer.end(commit=commit) == 0
    found = read_committed(client)
    aborted = only(found.aborted_transactions)
    assert (aborted.producer_id, aborted.first_offset) == (writer.id, 2)
    assert read_committed(client, 4).aborted_transactions == []


def test_the_epoch_goes_up_with_each_transaction_of_version_2_only(
    writer: Writer, version: int
) -> None:
    begin(writer)
    writer.produce(b"a")
    writer.end(commit=True)
    assert writer.epoch == (1 if version == TV2 else 0)


def test_a_repeated_end_is_answered_again_and_a_contradiction_refused(
    writer: Writer, version: int
) -> None:
    begin(writer)
    writer.produce(b"a")
    before = writer.epoch
    assert writer.end(commit=True) == 0
    after = writer.epoch
    writer.epoch = before
    assert writer.end(commit=True) == 0
    assert writer.epoch == after
    writer.epoch = before
    assert writer.end(commit=False) == (90 if version == TV2 else 48)


def test_a_newer_producer_fences_the_older(
    writer: Writer, client: RawClient, cluster: FakeCluster, version: int
) -> None:
    begin(writer)
    assert writer.produce(b"lost") == 0
    newer = Writer(client, version)
    assert newer.init() == 0
    assert newer.id == writer.id
    assert newer.epoch > writer.epoch
    assert writer.produce(b"late") == 47
    assert writer.add() == 90
    assert writer.end(commit=True) == 90
    found = read_committed(client)
    assert only(found.aborted_transactions).first_offset == 0
    begin(newer)
    assert newer.produce(b"new") == 0
    assert newer.end(commit=True) == 0
    assert [r.value for r in cluster.records(TP)] == [b"lost", b"new"]


def test_a_partition_that_was_not_added_is_refused_before_version_2(
    writer: Writer, version: int
) -> None:
    assert writer.produce(b"a") == (0 if version == TV2 else 48)


def test_a_transaction_that_takes_too_long_is_aborted(
    client: RawClient, version: int, cluster: FakeCluster
) -> None:
    slow = Writer(client, version, timeout_ms=1)
    assert slow.init() == 0
    begin(slow)
    slow.produce(b"a")
    # Each request lets time pass; the loop ends when a millisecond has.
    while read_committed(client).last_stable_offset == 0:
        pass
    assert slow.end(commit=True) == 90


def test_an_unknown_producer_has_no_transaction(client: RawClient, version: int) -> None:
    assert Writer(client, version).end(commit=True) == 49

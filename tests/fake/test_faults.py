from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from kclient import ProducerRecord, TopicPartition, records
from kclient.errors import ConfigError, KafkaTimeout, ProtocolError, TopicExists
from kclient.protocol.exchange import correlation_id, decode_response
from kclient.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kclient.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kclient.testing import FakeCluster
from kclient.testing.fake import (
    Fault,
    alter,
    answer,
    close_after,
    close_before,
    close_midway,
    delay,
    drop,
    error_code,
    garbage,
    move_leader,
    negative_frame,
    oversized_frame,
    throttle,
    unsolicited,
    wrong_correlation_id,
)
from kclient.testing.fake.journal import SeenRequest

from .raw import RawClient, only

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=2, topics={"orders": 2}) as running:
        running.move_leader(OTHER, 1)
        yield running


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[RawClient]:
    with RawClient(cluster.address(1)) as connected:
        yield connected


def produce_request(*partitions: int) -> ProduceRequest:
    batch = records.encode([ProducerRecord("orders", b"a")])
    data = [PartitionProduceData(index=index, records=batch) for index in partitions or (0,)]
    topic = TopicProduceData(name="orders", partition_data=data)
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])


def produce(client: RawClient, *partitions: int) -> list[int]:
    """The error codes."""
    done = client.ask(produce_request(*partitions), 10, ProduceResponse)
    return [partition.error_code for partition in only(done.responses).partition_responses]


def test_an_error_meets_the_nth_request_only(cluster: FakeCluster, client: RawClient) -> None:
    fault = cluster.on("Produce", error_code(19), nth=2, times=2)
    assert [produce(client) for _ in range(4)] == [[0], [19], [19], [0]]
    assert len(cluster.records(TP)) == 2
    assert fault.await_hit(1, times=2).correlation_id == 3


def test_an_error_may_hit_one_partition_after_the_work_is_done(
    cluster: FakeCluster, client: RawClient
) -> None:
    cluster.on("Produce", error_code(20, partition=OTHER, processed=True))
    assert produce(client, 0, 1) == [0, 20]
    assert len(cluster.records(OTHER)) == 1
    cluster.on("Produce", error_code(6, partition=TP))
    assert produce(client, 0, 1) == [6, 0]
    assert len(cluster.records(TP)) == 1


def test_a_fault_of_one_broker_leaves_the_others_alone(cluster: FakeCluster) -> None:
    fault = cluster.on("Metadata", close_before(), node=2)
    with RawClient(cluster.address(1)) as one, RawClient(cluster.address(2)) as two:
        one.ask(MetadataRequest(), 9, MetadataResponse)
        assert fault.hits == []
        two.send(MetadataRequest(), 9)
        with pytest.raises(EOFError):
            two.receive_frame()
        assert fault.await_hit(5).node == 2


@pytest.mark.parametrize(("fault", "stored"), [(close_before(), 0), (close_after(), 1)])
def test_a_closed_connection_tells_nothing_of_the_work(
    cluster: FakeCluster, client: RawClient, fault: Fault, stored: int
) -> None:
    cluster.on("Produce", fault)
    client.send(produce_request(), 10)
    assert client.sock.recv(1000) == b""
    assert len(cluster.records(TP)) == stored


def test_half_an_answer(cluster: FakeCluster, client: RawClient) -> None:
    cluster.on("Produce", close_midway())
    client.send(produce_request(), 10)
    with pytest.raises(EOFError, match="after [1-9]"):
        client.receive_frame()
    assert len(cluster.records(TP)) == 1


@pytest.mark.parametrize("processed", [False, True])
def test_a_dropped_answer_is_not_missed_by_the_next(
    cluster: FakeCluster, client: RawClient, processed: bool
) -> None:
    cluster.on("Produce", drop(processed=processed))
    client.send(produce_request(), 10)
    client.ask(MetadataRequest(), 9, MetadataResponse)
    assert len(cluster.records(TP)) == int(processed)


def test_a_late_answer_comes_after_the_work(cluster: FakeCluster, client: RawClient) -> None:
    fault = cluster.on("Produce", delay(0.3))
    client.send(produce_request(), 10)
    fault.await_hit(5)
    client.sock.settimeout(0.01)
    with pytest.raises(TimeoutError):
        client.receive_frame()
    client.sock.settimeout(10)
    assert correlation_id(client.receive_frame()) == 1
    assert len(cluster.records(TP)) == 1


def test_a_wrong_number(cluster: FakeCluster, client: RawClient) -> None:
    cluster.on("Metadata", wrong_correlation_id())
    client.send(MetadataRequest(), 9)
    assert correlation_id(client.receive_frame()) != 1


def test_an_answer_too_many(cluster: FakeCluster, client: RawClient) -> None:
    cluster.on("Metadata", unsolicited())
    client.send(MetadataRequest(), 9)
    assert client.receive_frame() == client.receive_frame()


@pytest.mark.parametrize(
    ("fault", "size"), [(oversized_frame(), 2**31 - 1), (negative_frame(), -1)]
)
def test_an_impossible_length(
    cluster: FakeCluster, client: RawClient, fault: Fault, size: int
) -> None:
    cluster.on("Metadata", fault)
    client.send(MetadataRequest(), 9)
    assert struct.unpack(">i", client.sock.recv(4)) == (size,)


def test_garbage_under_the_right_number(cluster: FakeCluster, client: RawClient) -> None:
    cluster.on("Metadata", garbage())
    client.send(MetadataRequest(), 9)
    frame = client.receive_frame()
    assert correlation_id(frame) == 1
    with pytest.raises(ProtocolError):
        decode_response(MetadataRequest, 9, frame)


def test_faults_add_up(cluster: FakeCluster, client: RawClient) -> None:
    cluster.on("Produce", error_code(6), throttle(250))
    done = client.ask(produce_request(), 10, ProduceResponse)
    assert done.throttle_time_ms == 250
    assert only(only(done.responses).partition_responses).error_code == 6


def test_a_leader_that_moves_tells_where_to(cluster: FakeCluster, client: RawClient) -> None:
    cluster.on("Produce", move_leader(TP, 2))
    done = client.ask(produce_request(), 10, ProduceResponse)
    failed = only(only(done.responses).partition_responses)
    assert (failed.error_code, failed.current_leader.leader_id) == (6, 2)
    where = only(done.node_endpoints)
    assert f"{where.host}:{where.port}" == cluster.address(2)


def test_an_answer_of_the_tests_own(cluster: FakeCluster, client: RawClient) -> None:
    def nobody(seen: SeenRequest) -> MetadataResponse:
        return MetadataResponse(cluster_id=f"asked by {seen.client_id}")

    cluster.on("Metadata", answer(nobody))
    assert client.ask(MetadataRequest(), 9, MetadataResponse).cluster_id == "asked by raw"


def test_an_answer_altered(cluster: FakeCluster, client: RawClient) -> None:
    def rename(_: SeenRequest, message: object) -> MetadataResponse:
        assert isinstance(message, MetadataResponse)
        message.cluster_id = "another"
        return message

    cluster.on("Metadata", alter(rename))
    changed = client.ask(MetadataRequest(), 9, MetadataResponse)
    assert changed.cluster_id == "another"
    assert len(changed.brokers) == 2


def test_a_fetch_session_error_is_at_the_top(cluster: FakeCluster, client: RawClient) -> None:
    wants = FetchTopic(topic="orders", partitions=[FetchPartition(partition_max_bytes=1000)])
    request = FetchRequest(topics=[wants])
    for code in (70, 71):
        cluster.on("Fetch", error_code(code))
        found = client.ask(request, 11, FetchResponse)
        assert (found.error_code, found.responses) == (code, [])
    cluster.on("Fetch", error_code(6))
    found = client.ask(request, 11, FetchResponse)
    assert only(only(found.responses).partitions).error_code == 6


def test_a_fault_that_nothing_met_says_so(cluster: FakeCluster) -> None:
    fault = cluster.on("Produce", drop())
    with pytest.raises(KafkaTimeout, match=r"on Produce: \[drop\(processed=False\)\], hit 0 times"):
        fault.await_hit(0.01)
    with pytest.raises(KafkaTimeout, match="0 of 1 Fetch requests"):
        cluster.await_request("Fetch", timeout=0.01)


def test_mistakes_in_a_script_are_told_at_once(cluster: FakeCluster) -> None:
    with pytest.raises(ConfigError, match="no API 'Prodcue'"):
        cluster.on("Prodcue", drop())
    with pytest.raises(ConfigError, match="no broker 9"):
        cluster.on("Produce", drop(), node=9)
    with pytest.raises(ConfigError, match="count from 1"):
        cluster.on("Produce", drop(), nth=0)
    with pytest.raises(TopicExists):
        cluster.create_topic("orders", 1)


def test_a_paused_broker_answers_when_it_resumes(cluster: FakeCluster, client: RawClient) -> None:
    cluster.pause(1)
    client.send(MetadataRequest(), 9)
    with RawClient(cluster.address(1)):  # still accepts
        client.sock.settimeout(0.05)
        with pytest.raises(TimeoutError):
            client.receive_frame()
    assert cluster.requests("Metadata") == []
    cluster.resume(1)
    client.sock.settimeout(10)
    assert correlation_id(client.receive_frame()) == 1


def test_a_killed_brokers_partitions_move_and_its_port_stays(cluster: FakeCluster) -> None:
    address = cluster.address(1)
    cluster.kill(1)
    with pytest.raises(ConnectionRefusedError):
        RawClient(address)
    assert cluster.leader(TP) == 2
    with RawClient(cluster.address(2)) as client:
        told = client.ask(MetadataRequest(topics=None), 9, MetadataResponse)
        assert [broker.node_id for broker in told.brokers] == [2]
        assert [p.leader_epoch for p in only(told.topics).partitions] == [1, 2]
    cluster.start(1)
    assert cluster.address(1) == address
    with RawClient(address) as client:
        client.ask(MetadataRequest(), 9, MetadataResponse)


def test_bytes_that_are_no_request_end_the_connection(cluster: FakeCluster) -> None:
    with RawClient(cluster.address(1)) as client:
        client.sock.sendall(struct.pack(">ihhi", 8, 3, 9, 1))
        assert client.sock.recv(10) == b""
    assert len(cluster.malformed) == 1


def test_an_error_inside_the_fake_reaches_the_test() -> None:
    def broken(_: SeenRequest) -> None:
        raise ZeroDivisionError("a mistake in the test's answer")

    cluster = FakeCluster().open()
    cluster.on("Metadata", answer(broken))
    with RawClient(cluster.address(1)) as client:
        client.send(MetadataRequest(), 9)
        assert client.sock.recv(10) == b""
    with pytest.raises(ZeroDivisionError):
        cluster.close()

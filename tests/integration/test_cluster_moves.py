"""Three real brokers that die, return, and move house, under clients that go on."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from kclient.cluster import ANY, CONTROLLER, Call, Coordinator, Leader, Metadata, Router
from kclient.cluster.target import CoordinatorKind
from kclient.config import ClientOptions, resolve
from kclient.deadline import Deadline
from kclient.errors import broker_error
from kclient.net.pool import Pool
from kclient.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kclient.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kclient.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kclient.protocol.wire import Message
from kclient.testing import LocalKafka
from kclient.types import TopicPartition

from .exchange import create_topic, new_name, until

TIMEOUT = 90.0
GROUP = Coordinator(CoordinatorKind.GROUP, "billing")


@pytest.fixture(scope="module")
def trio(
    request: pytest.FixtureRequest, local_kafka_factory: Callable[..., LocalKafka]
) -> Iterator[LocalKafka]:
    kafka = local_kafka_factory(brokers=3)
    yield kafka
    kafka.close(keep_logs=request.session.testsfailed > 0)


class Client:
    """The layers below a producer or consumer."""

    def __init__(self, servers: str, **options: Any) -> None:
        self.options = resolve(ClientOptions, {"bootstrap_servers": servers, **options})
        self.pool = Pool(self.options)
        self.metadata = Metadata(self.options, self.pool)
        self.router = Router(self.options, self.pool, self.metadata)


@contextmanager
def client(servers: str, **options: Any) -> Iterator[Client]:
    made = Client(servers, **options)
    try:
        yield made
    finally:
        made.pool.close()


def soon() -> Deadline:
    return Deadline(TIMEOUT)


def end_offset(tp: TopicPartition) -> Call[int]:
    def build(version: int) -> Message:
        partition = ListOffsetsPartition(partition_index=tp.partition, timestamp=-1)
        topic = ListOffsetsTopic(name=tp.topic, partitions=[partition])
        return ListOffsetsRequest(replica_id=-1, topics=[topic])

    def read(message: Message) -> int:
        assert isinstance(message, ListOffsetsResponse)
        (found,) = message.topics[0].partitions
        if found.error_code:
            raise broker_error(found.error_code, f"the end of {tp}")
        return found.offset

    return Call(ListOffsetsRequest, build, read)


def group_state(message: Message) -> str:
    assert isinstance(message, DescribeGroupsResponse)
    (found,) = message.groups
    if found.error_code and found.error_code != 69:  # GROUP_ID_NOT_FOUND
        raise broker_error(found.error_code, "describing the group")
    return found.group_state


DESCRIBE = Call(
    DescribeGroupsRequest, lambda version: DescribeGroupsRequest(groups=["billing"]), group_state
)


def listed(message: Message) -> set[int]:
    assert isinstance(message, MetadataResponse)
    return {each.node_id for each in message.brokers}


BROKERS = Call(MetadataRequest, lambda version: MetadataRequest(topics=[]), listed)


def test_leaders_coordinators_and_controllers_are_followed_through_a_kill(
    trio: LocalKafka,
) -> None:
    topic = new_name()
    create_topic(trio.address(1), topic, partitions=6, replicas=3)
    tps = [TopicPartition(topic, number) for number in range(6)]
    with client(trio.bootstrap_servers) as ours:
        router = ours.router
        assert router.ask(ANY, BROKERS, soon()) == {1, 2, 3}
        assert [router.ask(Leader(tp), end_offset(tp), soon()) for tp in tps] == [0] * 6
        assert router.ask(GROUP, DESCRIBE, soon()) == "Dead"
        lost = router.locate(GROUP, soon()).node
        trio.kill(lost)
        # Every call goes on, by itself, to whoever took over.
        assert [router.ask(Leader(tp), end_offset(tp), soon()) for tp in tps] == [0] * 6
        assert router.ask(GROUP, DESCRIBE, soon()) == "Dead"
        assert router.locate(GROUP, soon()).node != lost
        assert lost not in {router.locate(Leader(tp), soon()).node for tp in tps}
        create = Call(CreateTopicsRequest, lambda version: CreateTopicsRequest(), nothing_made)
        assert router.ask(CONTROLLER, create, soon()) == 0
        trio.start(lost)
        until(lambda: router.ask(ANY, BROKERS, soon()) == {1, 2, 3}, "all three are back")
        ours.metadata.refresh(soon())
        assert set(ours.metadata.view.brokers) == {1, 2, 3}


def nothing_made(message: Message) -> int:
    assert isinstance(message, CreateTopicsResponse)
    return len(message.topics)


def test_epochs_only_rise_while_a_broker_dies_and_returns(trio: LocalKafka) -> None:
    topic = new_name()
    create_topic(trio.address(1), topic, partitions=6, replicas=3)
    highest = dict.fromkeys(range(6), -1)
    with client(trio.bootstrap_servers) as ours:

        def look() -> dict[int, int]:
            ours.metadata.refresh(soon(), [topic])
            partitions = ours.metadata.view.topics[topic].partitions
            for number, partition in partitions.items():
                assert partition.leader_epoch >= highest[number]
                highest[number] = partition.leader_epoch
            assert len(partitions) == 6
            return {number: each.leader_id for number, each in partitions.items()}

        lost = look()[0]
        trio.kill(lost)
        until(lambda: lost not in look().values(), "others lead", TIMEOUT)
        trio.start(lost)

        def is_back() -> bool:
            look()
            return set(ours.metadata.view.brokers) == {1, 2, 3}

        until(is_back, "it is back", TIMEOUT)


class Forwarder:
    """A port in front of a broker that can be cut, as when a cluster moves house."""

    def __init__(self, target: str) -> None:
        host, port = target.split(":")
        self._target = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._target)
                self._sockets += [near, far]
                for source, sink in ((near, far), (far, near)):
                    thread = threading.Thread(target=pump, args=(source, sink), daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def close(self) -> None:
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(30)
        for each in (self._listener, *self._sockets):
            each.close()


def pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def test_when_all_addresses_changed_the_bootstrap_name_finds_them_again(
    trio: LocalKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All brokers move to other ports; only the name given at the start leads to them."""
    where = {"old": [Forwarder(trio.address(node)) for node in trio.nodes]}
    house = ["old"]
    real = socket.getaddrinfo

    def resolved(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        if host == "kafka.test":  # a name whose addresses change
            return real("127.0.0.1", where[house[0]][0].port, *rest, **more)
        return real(host, port, *rest, **more)

    def moved(message: MetadataResponse) -> MetadataResponse:
        for broker in message.brokers:  # brokers advertise where they are now
            broker.port = where[house[0]][broker.node_id - 1].port
        return message

    decode = MetadataResponse.decode
    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    monkeypatch.setattr(
        MetadataResponse, "decode", lambda data, version: moved(decode(data, version))
    )
    with client("kafka.test:9092") as ours:
        assert ours.router.ask(ANY, BROKERS, soon()) == {1, 2, 3}
        ours.metadata.refresh(soon())
        before = {each.address for each in ours.metadata.view.brokers.values()}
        where["new"] = [Forwarder(trio.address(node)) for node in trio.nodes]
        house[0] = "new"
        for forwarder in where["old"]:
            forwarder.close()
        ours.metadata.refresh(soon())
        after = {each.address for each in ours.metadata.view.brokers.values()}
        assert after == {f"127.0.0.1:{each.port}" for each in where["new"]}
        assert not before & after
        assert ours.router.ask(GROUP, DESCRIBE, soon()) == "Dead"
    for forwarder in where["new"]:
        forwarder.close()

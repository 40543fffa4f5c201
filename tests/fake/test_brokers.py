"""Authentication, topics made by clients, and brokers of other ages."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from kclient import TopicPartition
from kclient.deadline import Deadline
from kclient.errors import ConfigError
from kclient.protocol import Message
from kclient.protocol.exchange import LENGTH, correlation_id
from kclient.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kclient.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kclient.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kclient.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kclient.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kclient.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kclient.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kclient.protocol.negotiate import KAFKA_0_8, KAFKA_0_9
from kclient.testing import FakeCluster

from .raw import RawClient, only

Start = Callable[..., FakeCluster]
PLAIN = b"\0ann\0secret"
BEARER = b"n,,\x01auth=Bearer any.thing\x01\x01"


def hung_up(client: RawClient) -> bool:
    try:
        return client.sock.recv(1) == b""
    except ConnectionResetError:
        return True


def ends_within(client: RawClient, deadline: Deadline) -> bool:
    """Ask until the broker hangs up."""
    while not deadline.is_over:
        try:
            client.ask(MetadataRequest(), 9, MetadataResponse)
        except (EOFError, ConnectionError):
            return True
    return False


def authenticate(client: RawClient, mechanism: str, token: bytes) -> tuple[int, int]:
    """Error code and lifetime."""
    handshake = SaslHandshakeRequest(mechanism=mechanism)
    chosen = client.ask(handshake, 1, SaslHandshakeResponse)
    if chosen.error_code:
        return chosen.error_code, 0
    request = SaslAuthenticateRequest(auth_bytes=token)
    answer = client.ask(request, 2, SaslAuthenticateResponse)
    return answer.error_code, answer.session_lifetime_ms


@pytest.mark.parametrize(("mechanism", "token"), [("PLAIN", PLAIN), ("OAUTHBEARER", BEARER)])
def test_nothing_is_answered_before_authentication(
    fake_cluster: Start, mechanism: str, token: bytes
) -> None:
    cluster = fake_cluster(sasl=True)
    with RawClient(cluster.address(1)) as stranger:
        stranger.ask(ApiVersionsRequest(), 3, ApiVersionsResponse)
        stranger.send(MetadataRequest(), 9)
        assert hung_up(stranger)
    with RawClient(cluster.address(1)) as client:
        assert authenticate(client, mechanism, token) == (0, 0)
        client.ask(MetadataRequest(), 9, MetadataResponse)


def test_only_the_users_there_are_get_in(fake_cluster: Start) -> None:
    cluster = fake_cluster(sasl={"ann": "secret"})
    for token, code in ((PLAIN, 0), (b"\0ann\0wrong", 58), (b"\0bob\0secret", 58), (b"x", 58)):
        with RawClient(cluster.address(1)) as client:
            assert authenticate(client, "PLAIN", token) == (code, 0)
    with RawClient(cluster.address(1)) as client:
        assert authenticate(client, "SCRAM-SHA-256", b"") == (33, 0)


def test_a_session_that_is_over_ends_the_connection_unless_renewed(fake_cluster: Start) -> None:
    cluster = fake_cluster(sasl=True, session_lifetime_ms=150)
    with RawClient(cluster.address(1)) as client:
        assert authenticate(client, "PLAIN", PLAIN) == (0, 150)
        assert authenticate(client, "PLAIN", PLAIN) == (0, 150)
        assert ends_within(client, Deadline(10))


def test_tokens_without_a_header_for_old_clients(fake_cluster: Start) -> None:
    cluster = fake_cluster(sasl=True)
    with RawClient(cluster.address(1)) as client:
        handshake = SaslHandshakeRequest(mechanism="PLAIN")
        client.ask(handshake, 0, SaslHandshakeResponse)
        client.sock.sendall(LENGTH.pack(len(PLAIN)) + PLAIN)
        assert client.receive_frame() == b""
        client.ask(MetadataRequest(), 9, MetadataResponse)


def test_clients_make_grow_and_delete_topics(fake_cluster: Start) -> None:
    cluster = fake_cluster(brokers=2)
    placed = [CreatableReplicaAssignment(partition_index=0, broker_ids=[2, 1])]
    topics = [
        CreatableTopic(
            name="orders",
            num_partitions=2,
            replication_factor=1,
            configs=[CreatableTopicConfig(name="max.message.bytes", value="1000")],
        ),
        CreatableTopic(name="placed", num_partitions=-1, replication_factor=-1, assignments=placed),
        CreatableTopic(name="no/name", num_partitions=1, replication_factor=1),
        CreatableTopic(name="wide", num_partitions=1, replication_factor=9),
    ]
    with RawClient(cluster.address(1)) as client:

        def codes(request: Message, version: int, answer: type[Message], items: str) -> list[int]:
            done = getattr(client.ask(request, version, answer), items)
            return [item.error_code for item in done]

        make = CreateTopicsRequest(topics=topics)
        assert codes(make, 7, CreateTopicsResponse, "topics") == [0, 0, 17, 38]
        assert codes(make, 7, CreateTopicsResponse, "topics") == [36, 36, 17, 38]
        assert cluster.leader(TopicPartition("placed", 0)) == 2
        grow = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="orders", count=n, assignments=None) for n in (3, 2)]
        )
        assert codes(grow, 3, CreatePartitionsResponse, "results") == [0, 37]
        asked = DescribeConfigsResource(
            resource_type=2, resource_name="orders", configuration_keys=["max.message.bytes"]
        )
        told = client.ask(DescribeConfigsRequest(resources=[asked]), 4, DescribeConfigsResponse)
        assert only(only(told.results).configs).value == "1000"
        drop = DeleteTopicsRequest(topics=[DeleteTopicState(name=n) for n in ("orders", "nope")])
        assert codes(drop, 6, DeleteTopicsResponse, "responses") == [0, 3]
        left = client.ask(MetadataRequest(topics=None), 12, MetadataResponse)
        assert [topic.name for topic in left.topics] == ["placed"]


def test_topics_come_to_be_by_metadata_where_that_is_allowed(fake_cluster: Start) -> None:
    cluster = fake_cluster(auto_create_topics=True)
    ask = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
    shy = MetadataRequest(topics=ask.topics, allow_auto_topic_creation=False)
    with RawClient(cluster.address(1)) as client:
        codes = [
            only(client.ask(request, 9, MetadataResponse).topics).error_code
            for request in (shy, ask, ask)
        ]
    assert codes == [3, 5, 0]


def test_one_broker_may_be_older_than_the_others(fake_cluster: Start) -> None:
    cluster = fake_cluster(brokers=2)
    cluster.set_versions(2, {"Metadata": (1, 5), "InitProducerId": None})
    spoken = []
    for node in (1, 2):
        with RawClient(cluster.address(node)) as client:
            answer = client.ask(ApiVersionsRequest(), 3, ApiVersionsResponse)
            spoken.append(
                {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
            )
    assert spoken[0][3] == (0, 13)
    assert spoken[1][3] == (1, 5)
    assert set(spoken[0]) - set(spoken[1]) == {22}
    with RawClient(cluster.address(2)) as client:
        client.send(MetadataRequest(topics=None), 6)
        assert hung_up(client)


def test_versions_that_kafka_never_had_are_a_mistake() -> None:
    with pytest.raises(ConfigError, match="Kafka has"):
        FakeCluster(speaks={"Fetch": 99})
    with pytest.raises(ConfigError, match="no API 'Fecth'"):
        FakeCluster(speaks={"Fecth": 1})


def test_kafka_0_8_hangs_up_on_api_versions(fake_cluster: Start) -> None:
    cluster = fake_cluster(speaks=KAFKA_0_8)
    with RawClient(cluster.address(1)) as client:
        client.send(ApiVersionsRequest(), 0)
        assert hung_up(client)


def test_kafka_0_9_ignores_api_versions_and_answers_what_follows(fake_cluster: Start) -> None:
    cluster = fake_cluster(speaks=KAFKA_0_9)
    with RawClient(cluster.address(1)) as client:
        client.send(ApiVersionsRequest(), 0)
        client.send(MetadataRequest(topics=[]), 0)
        assert correlation_id(client.receive_frame()) == 2


def test_what_is_open_is_counted_and_can_be_closed(fake_cluster: Start) -> None:
    cluster = fake_cluster()
    with RawClient(cluster.address(1)) as client:
        client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        assert cluster.connections(1) == 1
        cluster.hang_up(1)
        assert hung_up(client)
    with RawClient(cluster.address(1)) as client:
        client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)


def test_a_secret_is_in_no_repr(fake_cluster: Start) -> None:
    cluster = fake_cluster(sasl={"ann": "hush-hush"})
    with RawClient(cluster.address(1)) as client:
        authenticate(client, "PLAIN", b"\0ann\0hush-hush")
    shown = repr(cluster) + repr(vars(cluster)) + repr(cluster.requests())
    assert "hush" not in shown


def test_a_client_that_does_not_read_holds_nobody_up(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={f"topic-{n}": 50 for n in range(50)})
    with RawClient(cluster.address(1)) as deaf, RawClient(cluster.address(1)) as other:
        deaf.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(40):
            deaf.send(MetadataRequest(topics=None), 12)
        cluster.await_request("Metadata")
        other.ask(ApiVersionsRequest(), 3, ApiVersionsResponse)

"""Which Kafka is there: found out by what it does, whatever its age, and not remembered wrongly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from kclient.config import ClientOptions, resolve
from kclient.deadline import Deadline
from kclient.errors import (
    AuthenticationError,
    ConfigError,
    KafkaTimeout,
    ProtocolError,
    TransportError,
    UnsupportedVersion,
)
from kclient.net.connection import Connection
from kclient.net.endpoint import Endpoint
from kclient.net.opening import Opener, caps_by_key
from kclient.net.security import Security
from kclient.protocol.messages.fetch import FetchRequest
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.protocol.negotiate import KAFKA_0_8, KAFKA_0_9, Versions
from kclient.testing import FakeCluster
from kclient.testing.fake import close_before, garbage, wrong_correlation_id

from .peer import Line, Peer


def opener(caps: Mapping[str, int] | None = None) -> Opener:
    options = resolve(ClientOptions, {"bootstrap_servers": "127.0.0.1"})
    return Opener(options, Security.from_options(options), caps_by_key(caps or {}))


def endpoint(address: str) -> Endpoint:
    host, port = address.rsplit(":", 1)
    return Endpoint(1, host, int(port))


@contextmanager
def opened(address: str, using: Opener | None = None) -> Iterator[Connection]:
    connection = (using or opener()).open(endpoint(address), Deadline(20))
    try:
        yield connection
    finally:
        connection.close()


def ask_metadata(connection: Connection) -> int:
    """The version in which it was asked, and answered."""
    version = connection.version_of(MetadataRequest)
    connection.ask(MetadataRequest(), version, Deadline(20))
    return version


@pytest.mark.parametrize(
    ("speaks", "kafka", "metadata"),
    [(None, "", 13), (KAFKA_0_9, "0.9", 0), (KAFKA_0_8, "0.8", 0)],
    ids=["4.3", "0.9", "0.8"],
)
def test_a_broker_of_any_age_is_recognised_and_asked_in_its_versions(
    speaks: Versions | None, kafka: str, metadata: int
) -> None:
    with FakeCluster(speaks=speaks) as cluster, opened(cluster.address(1)) as connection:
        assert connection.versions.kafka == kafka
        assert ask_metadata(connection) == metadata


@pytest.mark.parametrize("highest", range(4))
def test_an_older_api_versions_is_fallen_back_to(highest: int) -> None:
    speaks = {"ApiVersions": highest, "Metadata": 5}
    with FakeCluster(speaks=speaks) as cluster, opened(cluster.address(1)) as connection:
        assert ask_metadata(connection) == 5
        assert [seen.version for seen in cluster.requests("ApiVersions")] == [highest]


def test_what_was_found_out_is_not_asked_again() -> None:
    one = opener()
    with FakeCluster(speaks=KAFKA_0_8) as cluster:
        with opened(cluster.address(1), one), opened(cluster.address(1), one) as second:
            assert second.versions == KAFKA_0_8
        assert len(cluster.requests("Metadata")) == 1  # the probe, at first sight only
    with FakeCluster() as cluster:
        for _ in range(2):
            with opened(cluster.address(1), one):
                pass
        assert len(cluster.requests("Metadata")) == 1


def test_an_upgraded_broker_is_not_taken_for_its_old_self() -> None:
    one = opener()
    with FakeCluster(speaks=KAFKA_0_8) as cluster:
        with opened(cluster.address(1), one) as connection:
            assert connection.versions.kafka == "0.8"
        cluster.set_versions(1, {})
        one.forget(cluster.address(1))
        with opened(cluster.address(1), one) as connection:
            assert ask_metadata(connection) == 13


def test_a_broker_that_hangs_up_once_is_not_taken_for_a_0_8() -> None:
    """It restarts, or a load balancer cut the connection: its age is found out all the same."""
    with FakeCluster() as cluster:
        fault = cluster.on("ApiVersions", close_before())
        with opened(cluster.address(1)) as connection:
            assert len(fault.hits) == 1
            assert ask_metadata(connection) == 13


def test_a_0_9_that_hangs_up_once_does_not_leave_us_waiting() -> None:
    with FakeCluster(speaks=KAFKA_0_9) as cluster:
        cluster.on("Metadata", close_before())
        with opened(cluster.address(1)) as connection:
            assert connection.versions == KAFKA_0_9


def test_whoever_hangs_up_on_everything_is_no_kafka_for_us() -> None:
    with Peer(Line.request, Line.request) as peer:
        with pytest.raises(TransportError, match="hangs up on every request; is it a Kafka") as got:
            opener().open(endpoint(peer.address), Deadline(20))
        assert (got.value.stage, got.value.address) == ("kafka", peer.address)  # type: ignore[attr-defined]


def test_a_listener_that_wants_a_login_says_so_at_once() -> None:
    with FakeCluster(sasl=True) as cluster:
        with pytest.raises(AuthenticationError, match="this listener wants a login") as got:
            opener().open(endpoint(cluster.address(1)), Deadline(20))
        assert not got.value.retriable
        assert got.value.stage == "sasl"  # type: ignore[attr-defined]


def test_a_silent_port_is_told_apart() -> None:
    with Peer(Line.drain) as peer:
        with pytest.raises(KafkaTimeout, match="connected, but no answer within 0.2 s") as got:
            opener().open(endpoint(peer.address), Deadline(0.2))
        assert got.value.stage == "kafka"  # type: ignore[attr-defined]


@pytest.mark.parametrize("highest", [0, 4], ids=["second question", "first question"])
def test_an_answer_to_another_question_is_refused(highest: int) -> None:
    with FakeCluster(speaks={"ApiVersions": highest}) as cluster:
        cluster.on("ApiVersions", wrong_correlation_id())
        with pytest.raises(ProtocolError, match="answered request .* when asked for its versions"):
            opener().open(endpoint(cluster.address(1)), Deadline(20))


def test_an_answer_of_garbage_is_a_protocol_error() -> None:
    with FakeCluster() as cluster:
        cluster.on("ApiVersions", garbage())
        with pytest.raises(ProtocolError):
            opener().open(endpoint(cluster.address(1)), Deadline(20))


def test_a_cap_limits_a_version() -> None:
    with FakeCluster() as cluster:
        with opened(cluster.address(1), opener({"Metadata": 4, "ApiVersions": 2})) as connection:
            assert ask_metadata(connection) == 4
            assert connection.version_of(FetchRequest) > 4
        assert [seen.version for seen in cluster.requests("ApiVersions")] == [2]


def test_a_cap_below_what_the_broker_speaks_names_both_ranges() -> None:
    with (
        FakeCluster(speaks={"Metadata": (5, 9)}) as cluster,
        opened(cluster.address(1), opener({"Metadata": 4})) as connection,
        pytest.raises(UnsupportedVersion, match="speaks v5 to v9, kclient v0 to v4"),
    ):
        connection.version_of(MetadataRequest)


def test_a_cap_of_an_api_that_does_not_exist() -> None:
    with pytest.raises(ConfigError, match="did you mean 'Fetch'"):
        caps_by_key({"Fetchs": 1})

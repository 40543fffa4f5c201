"""Real brokers of every age, found out by the client itself, and spoken to in their versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kclient.cluster import ANY, Call, Leader, Metadata, Router
from kclient.config import ClientOptions, resolve
from kclient.deadline import Deadline
from kclient.errors import UnsupportedVersion
from kclient.net.connection import Connection
from kclient.net.endpoint import Endpoint
from kclient.net.pool import Pool
from kclient.protocol import APIS, REQUESTS
from kclient.protocol.messages.create_topics import CreateTopicsRequest
from kclient.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kclient.protocol.wire import Message
from kclient.testing import LocalKafka
from kclient.testing.releases import RELEASES, parse_version
from kclient.types import TopicPartition

from .exchange import api_versions, leader, new_name, until

DEFAULT = ("0.8.2.2", "0.9.0.1", "4.3.1")
TIMEOUT = 60.0


def ages() -> Iterator[Any]:
    """The oldest kinds and the newest always; the others when every Kafka is asked for."""
    for version in DEFAULT:
        yield pytest.param(version, id=version)
    for release in RELEASES:
        if release.version not in DEFAULT:
            yield pytest.param(release.version, id=release.version, marks=pytest.mark.every_kafka)


@pytest.fixture(scope="module", params=ages())
def kafka(
    request: pytest.FixtureRequest, local_kafka_factory: Callable[..., LocalKafka]
) -> Iterator[LocalKafka]:
    running = local_kafka_factory(version=request.param)
    yield running
    running.close(keep_logs=request.session.testsfailed > 0)


@contextmanager
def pool_of(kafka: LocalKafka, **options: Any) -> Iterator[tuple[Pool, Router]]:
    given = {"bootstrap_servers": kafka.bootstrap_servers, **options}
    resolved = resolve(ClientOptions, given)
    pool = Pool(resolved)
    try:
        yield pool, Router(resolved, pool, Metadata(resolved, pool))
    finally:
        pool.close()


@contextmanager
def connected(kafka: LocalKafka, **options: Any) -> Iterator[Connection]:
    host, port = kafka.address(1).split(":")
    with (
        pool_of(kafka, **options) as (pool, _),
        pool.lease(Endpoint(1, host, int(port)), "admin", Deadline(TIMEOUT)) as connection,
    ):
        yield connection


def test_the_client_finds_out_what_the_broker_speaks(kafka: LocalKafka) -> None:
    number = parse_version(kafka.version)
    with connected(kafka) as connection:
        if number < (0, 10):
            assert kafka.version.startswith(connection.versions.kafka)
        else:
            told = {
                each.api_key: (each.min_version, each.max_version)
                for each in api_versions(kafka.address(1), 0).api_keys
            }
            assert connection.versions.kafka == ""
            # The newest ApiVersions tells what v0 tells, but for APIs that it may not show.
            assert {key: connection.versions.ranges[key] for key in told} == told
        for key in connection.versions.ranges:
            if key in APIS and key != 7:  # ControlledShutdown is between brokers
                low, high = connection.versions.ranges[key]
                version = connection.versions.choose(REQUESTS[key])
                assert low <= version <= min(high, APIS[key].stable)


def end_offset(tp: TopicPartition) -> Call[int]:
    def build(version: int) -> Message:
        partition = ListOffsetsPartition(
            partition_index=tp.partition, timestamp=-1, max_num_offsets=1
        )
        topic = ListOffsetsTopic(name=tp.topic, partitions=[partition])
        return ListOffsetsRequest(replica_id=-1, topics=[topic])

    def read(message: Message) -> int:
        assert isinstance(message, ListOffsetsResponse)
        (found,) = message.topics[0].partitions
        assert found.error_code == 0
        return found.old_style_offsets[0] if found.old_style_offsets else found.offset

    return Call(ListOffsetsRequest, build, read)


def test_a_leader_is_found_and_answers_in_the_highest_common_version(kafka: LocalKafka) -> None:
    topic = new_name()
    until(lambda: leader(kafka.address(1), topic, 0) == 1, "asking for a topic makes it")
    tp = TopicPartition(topic, 0)
    with pool_of(kafka) as (_, router):
        assert router.ask(Leader(tp), end_offset(tp), Deadline(TIMEOUT)) == 0


def test_an_api_that_came_later_is_told_with_both_ranges(kafka: LocalKafka) -> None:
    number = parse_version(kafka.version)
    with connected(kafka) as connection:
        if number < (0, 10, 1):
            with pytest.raises(UnsupportedVersion, match="the broker does not have CreateTopics"):
                connection.version_of(CreateTopicsRequest)
        else:
            assert connection.version_of(CreateTopicsRequest) >= 0


def test_versions_can_be_capped(kafka: LocalKafka) -> None:
    with connected(kafka, api_version_caps={"Metadata": 0}) as connection:
        assert connection.version_of(MetadataRequest) == 0
        answer = connection.ask(MetadataRequest(), 0, Deadline(TIMEOUT))
        assert isinstance(answer, MetadataResponse)


def test_a_cap_that_excludes_the_broker_is_told_with_both_ranges(
    local_kafka: LocalKafka,
) -> None:
    create = Call(CreateTopicsRequest, lambda version: CreateTopicsRequest(), str)
    with (
        pool_of(local_kafka, api_version_caps={"CreateTopics": 1}) as (_, router),
        pytest.raises(
            UnsupportedVersion,
            match="no common version of CreateTopics: the broker speaks v2 to v7, kclient v0 to v1",
        ),
    ):
        router.ask(ANY, create, Deadline(600))


@pytest.mark.timeout(180)
def test_many_connections_to_an_old_broker_are_made_without_asking_again(
    kafka: LocalKafka,
) -> None:
    with pool_of(kafka) as (pool, _):
        host, port = kafka.address(1).split(":")
        where = Endpoint(1, host, int(port))
        for number in range(20):
            with pool.lease(where, f"lane-{number}", Deadline(TIMEOUT)) as connection:
                connection.ask(MetadataRequest(), 0, Deadline(TIMEOUT))

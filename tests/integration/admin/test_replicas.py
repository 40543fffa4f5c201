"""Partitions moved between three brokers, and their leaders elected."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kclient import Admin, ConfigResource, Reassignment, TopicPartition
from kclient.errors import InvalidRequest, PartialFailure, TopicNotFound
from kclient.testing import LocalKafka

from ..exchange import new_name, until
from .peers import read, write


def replicas(admin: Admin, topic: str) -> list[tuple[int, ...]]:
    return [each.replicas for each in admin.describe_topics([topic])[topic].partitions]


def leaders(admin: Admin, topic: str) -> list[int | None]:
    return [each.leader for each in admin.describe_topics([topic])[topic].partitions]


def test_a_reassignment_moves_a_replica_with_its_records(admin3: Admin, trio: LocalKafka) -> None:
    topic = new_name()
    admin3.create_topic(topic, assignments=[[1], [2]])
    write(trio.bootstrap_servers, topic, 20)
    moved, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert admin3.alter_partition_reassignments({moved: [3], other: [2, 1]}) == {
        moved: None,
        other: None,
    }
    until(lambda: not admin3.list_partition_reassignments([moved, other]), "both have arrived")
    until(lambda: replicas(admin3, topic) == [(3,), (2, 1)], "the brokers know")
    until(lambda: leaders(admin3, topic)[0] == 3, "the new replica leads")
    assert read(trio.bootstrap_servers, topic, count=20) == list(range(20))


@pytest.fixture
def slow_replication(admin3: Admin) -> Iterator[None]:
    """One byte a second from broker 1 to others, for topics that are throttled."""
    broker, rate = ConfigResource("broker", "1"), "leader.replication.throttled.rate"
    admin3.alter_configs({broker: {rate: 1}})
    until(lambda: rate in admin3.describe_configs([broker])[broker], "it is slow")
    yield
    admin3.alter_configs({broker: {rate: None}})


@pytest.mark.usefixtures("slow_replication")
def test_a_move_is_listed_until_it_is_cancelled(admin3: Admin, trio: LocalKafka) -> None:
    topic = new_name()
    throttled = {"leader.replication.throttled.replicas": "*"}
    admin3.create_topic(topic, assignments=[[1]], configs=throttled)
    write(trio.bootstrap_servers, topic, 200, size=50_000)
    tp = TopicPartition(topic, 0)
    admin3.alter_partition_reassignments({tp: [3]})
    assert admin3.list_partition_reassignments() == {tp: Reassignment((3, 1), (3,), (1,))}
    assert admin3.list_partition_reassignments([TopicPartition(topic, 5)]) == {}
    admin3.alter_partition_reassignments({tp: None})
    assert admin3.list_partition_reassignments() == {}
    until(lambda: replicas(admin3, topic) == [(1,)], "the brokers know")
    with pytest.raises(PartialFailure) as caught:
        admin3.alter_partition_reassignments({tp: None})
    assert "NO_REASSIGNMENT_IN_PROGRESS" in str(caught.value.failures[tp])


def test_moves_that_cannot_be(admin3: Admin) -> None:
    topic = new_name()
    admin3.create_topic(topic, assignments=[[1]])
    nowhere, unknown = TopicPartition(topic, 0), TopicPartition(new_name(), 0)
    with pytest.raises(PartialFailure) as caught:
        admin3.alter_partition_reassignments({nowhere: [9], unknown: [1]})
    assert caught.value.results == {}
    assert isinstance(caught.value.failures[nowhere], InvalidRequest)
    assert isinstance(caught.value.failures[unknown], TopicNotFound)


def test_the_preferred_leader_is_elected(admin3: Admin) -> None:
    topic = new_name()
    admin3.create_topic(topic, assignments=[[1, 2, 3]])
    tp = TopicPartition(topic, 0)
    assert admin3.elect_leaders([tp]) == {tp: False}
    # Putting another replica first does not make it lead: that takes an election.
    admin3.alter_partition_reassignments({tp: [2, 3, 1]})
    until(lambda: replicas(admin3, topic) == [(2, 3, 1)], "the brokers know")
    until(lambda: len(admin3.describe_topics([topic])[topic].partitions[0].isr) == 3, "in sync")
    assert leaders(admin3, topic) == [1]
    assert admin3.elect_leaders([tp]) == {tp: True}
    until(lambda: leaders(admin3, topic) == [2], "the brokers know")
    assert tp not in admin3.elect_leaders()

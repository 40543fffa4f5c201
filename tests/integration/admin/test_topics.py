"""Topics made, described, widened and deleted by Admin, seen by other clients."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from kclient import Admin, ConfigResource, NewPartitions, NewTopic
from kclient.errors import InvalidRequest, PartialFailure, TopicExists, TopicNotFound
from kclient.testing import LocalKafka

from ..exchange import new_name, until


def seen_by_librdkafka(kafka: LocalKafka, topic: str) -> dict[int, tuple[int, ...]]:
    """Replicas of each partition, as another client sees them."""
    found = AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=10)
    partitions = found.topics[topic].partitions if topic in found.topics else {}
    return {number: tuple(each.replicas) for number, each in partitions.items()}


def test_a_created_topic_has_its_partitions_replicas_and_configs(
    admin3: Admin, trio: LocalKafka
) -> None:
    name = new_name()
    made = admin3.create_topic(
        name, 4, 2, configs={"retention.ms": 86_400_000, "cleanup.policy": ["compact", "delete"]}
    )
    assert (made.name, made.num_partitions, made.replication_factor) == (name, 4, 2)
    assert made.configs is not None
    assert made.configs["retention.ms"].value == "86400000"
    described = admin3.describe_topics([name])[name]
    assert described.topic_id == made.topic_id
    assert [each.partition for each in described.partitions] == [0, 1, 2, 3]
    until(lambda: len(seen_by_librdkafka(trio, name)) == 4, "all brokers know")
    assert seen_by_librdkafka(trio, name) == {
        each.partition: each.replicas for each in described.partitions
    }
    assert all(len(each.replicas) == 2 for each in described.partitions)
    resource = ConfigResource("topic", name)
    configs = admin3.describe_configs([resource])[resource]
    assert configs["cleanup.policy"].value == "compact,delete"
    assert configs["cleanup.policy"].source == "dynamic_topic"


def test_replicas_are_where_the_assignments_say(admin3: Admin, trio: LocalKafka) -> None:
    name = new_name()
    admin3.create_topic(name, assignments=[[3, 1], [2, 3], [1, 2]])
    described = admin3.describe_topics([name])[name]
    assert [each.replicas for each in described.partitions] == [(3, 1), (2, 3), (1, 2)]
    assert [each.leader for each in described.partitions] == [3, 2, 1]


def test_numbers_left_out_are_the_clusters(admin3: Admin) -> None:
    made = admin3.create_topic(new_name())
    assert (made.num_partitions, made.replication_factor) == (1, 3)


def test_validate_only_makes_nothing(admin: Admin) -> None:
    name = new_name()
    assert admin.create_topic(name, 2, 1, validate_only=True).num_partitions == 2
    assert name not in admin.list_topics()
    with pytest.raises(TopicNotFound, match=name):
        raise failure(admin, name)


def failure(admin: Admin, name: str) -> Exception:
    with pytest.raises(PartialFailure) as caught:
        admin.describe_topics([name])
    return caught.value.failures[name]


def test_the_good_ones_are_made_though_one_exists(admin: Admin) -> None:
    old, new = new_name(), new_name()
    admin.create_topic(old, 1, 1)
    with pytest.raises(PartialFailure, match=f"1 of 2 failed.*{old}") as caught:
        admin.create_topics([NewTopic(old, 1, 1), NewTopic(new, 1, 1)])
    assert list(caught.value.results) == [new]
    assert isinstance(caught.value.failures[old], TopicExists)
    assert {old, new} <= set(admin.list_topics())
    with pytest.raises(TopicExists, match=f"{old!r} was not created"):
        admin.create_topic(old, 1, 1)


def test_a_deleted_topic_is_gone(admin: Admin, solo: LocalKafka) -> None:
    by_name, by_id = new_name(), new_name()
    made = admin.create_topics([NewTopic(by_name, 1, 1), NewTopic(by_id, 1, 1)])
    topic_id = made[by_id].topic_id
    assert topic_id is not None
    assert admin.delete_topics([by_name, topic_id]) == {by_name: None, topic_id: None}
    assert by_name not in admin.list_topics()
    until(lambda: by_id not in admin.list_topics(), "the other is gone")
    assert seen_by_librdkafka(solo, by_name) == {}
    with pytest.raises(PartialFailure) as caught:
        admin.delete_topics([by_name, topic_id])
    assert {type(error) for error in caught.value.failures.values()} == {TopicNotFound}


def test_topics_get_more_partitions(admin3: Admin) -> None:
    plain, placed = new_name(), new_name()
    admin3.create_topics([NewTopic(plain, 1, 1), NewTopic(placed, assignments=[[1]])])
    admin3.create_partitions({plain: 5}, validate_only=True)
    assert len(admin3.describe_topics([plain])[plain].partitions) == 1
    admin3.create_partitions({plain: 5, placed: NewPartitions(3, [[2], [3]])})
    until(lambda: widths(admin3, plain, placed) == [5, 3], "the brokers know")
    described = admin3.describe_topics([placed])[placed]
    assert [each.replicas for each in described.partitions] == [(1,), (2,), (3,)]
    with pytest.raises(PartialFailure) as caught:
        admin3.create_partitions({plain: 2})
    assert isinstance(caught.value.failures[plain], InvalidRequest)
    assert "currently has 5 partition(s)" in str(caught.value)


def widths(admin: Admin, *names: str) -> list[int]:
    found = admin.describe_topics(names)
    return [len(found[name].partitions) for name in names]


def test_internal_topics_are_listed_on_demand(admin: Admin, solo: LocalKafka) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": solo.bootstrap_servers, "group.id": new_name()})
    consumer.subscribe(["any"])
    until(
        lambda: (
            consumer.poll(0.1) is not None
            or "__consumer_offsets" in admin.list_topics(include_internal=True)
        ),
        "a group has its coordinator",
    )
    consumer.close()
    assert admin.list_topics(include_internal=True)["__consumer_offsets"].is_internal
    assert "__consumer_offsets" not in admin.list_topics()


def test_a_replication_factor_beyond_the_brokers_is_refused(admin: Admin) -> None:
    with pytest.raises(InvalidRequest, match="replication factor 2 .* has 1: \\[1\\]"):
        admin.create_topic(new_name(), 1, 2)


def test_what_this_user_may_do(admin: Admin) -> None:
    name = new_name()
    admin.create_topic(name, 1, 1)
    plain = admin.describe_topics([name])[name]
    told = admin.describe_topics([name], include_authorized_operations=True)[name]
    assert plain.authorized_operations is None
    assert told.authorized_operations is not None
    assert {"read", "write", "delete"} <= told.authorized_operations

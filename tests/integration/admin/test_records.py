"""Offsets looked up and records deleted, as a reader notices."""

from __future__ import annotations

import pytest

from kclient import Admin, TopicPartition
from kclient.errors import OffsetOutOfRange, PartialFailure, TopicNotFound
from kclient.operations.records import OffsetSpec
from kclient.testing import LocalKafka

from ..exchange import new_name, now_ms
from .peers import read, write


def test_deleted_records_are_gone(admin: Admin, solo: LocalKafka) -> None:
    topic = new_name()
    admin.create_topic(topic, 2, 1)
    kept, emptied = TopicPartition(topic, 0), TopicPartition(topic, 1)
    for partition in (0, 1):
        write(solo.bootstrap_servers, topic, 10, partition=partition)
    assert admin.delete_records({kept: 4, emptied: "latest"}) == {kept: 4, emptied: 10}
    assert read(solo.bootstrap_servers, topic, {"auto.offset.reset": "earliest"}, count=6) == [
        4,
        5,
        6,
        7,
        8,
        9,
    ]
    assert offsets(admin, kept, emptied, spec="earliest") == [4, 10]
    with pytest.raises(PartialFailure) as caught:
        admin.delete_records({kept: 99})
    assert isinstance(caught.value.failures[kept], OffsetOutOfRange)


def offsets(admin: Admin, *tps: TopicPartition, spec: OffsetSpec) -> list[int | None]:
    found = admin.list_offsets(dict.fromkeys(tps, spec))
    return [found[tp].offset for tp in tps]


def test_offsets_are_looked_up_in_every_way(admin: Admin, solo: LocalKafka) -> None:
    topic = new_name()
    admin.create_topic(topic, 1, 1)
    tp = TopicPartition(topic, 0)
    before = now_ms()
    write(solo.bootstrap_servers, topic, 3)
    assert admin.list_offsets([tp])[tp].offset == 3
    assert admin.list_offsets([tp], isolation_level="read_committed")[tp].offset == 3
    assert offsets(admin, tp, spec="earliest") == [0]
    assert offsets(admin, tp, spec="earliest_local") == [0]
    found = admin.list_offsets({tp: before})[tp]
    assert found.offset == 0
    assert found.timestamp is not None
    assert before <= found.timestamp <= now_ms()
    assert found.leader_epoch == 0
    assert admin.list_offsets({tp: now_ms() + 60_000})[tp].offset is None
    newest = admin.list_offsets({tp: "max_timestamp"})[tp]
    assert newest.offset in (0, 1, 2)


def test_partitions_of_many_leaders_at_once(admin3: Admin, trio: LocalKafka) -> None:
    topic, missing = new_name(), new_name()
    admin3.create_topic(topic, assignments=[[1], [2], [3]])
    for partition in range(3):
        write(trio.bootstrap_servers, topic, partition + 1, partition=partition)
    tps = [TopicPartition(topic, number) for number in range(3)]
    assert [each.offset for each in admin3.list_offsets(tps).values()] == [1, 2, 3]
    with pytest.raises(PartialFailure) as caught:
        admin3.list_offsets([*tps, TopicPartition(missing, 0), TopicPartition(topic, 7)])
    assert [each.offset for each in caught.value.results.values()] == [1, 2, 3]
    assert {type(error) for error in caught.value.failures.values()} == {TopicNotFound}
    assert "has no partition 7: it has 3" in str(caught.value)

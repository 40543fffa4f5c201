"""Transactions on real brokers, as a reader of committed records sees them."""

from __future__ import annotations

from typing import Any

import pytest

from kclient import Admin, GroupMetadata, Producer, TopicPartition
from kclient.errors import ProducerFenced, TransactionFailed, TransactionLost

from ..exchange import new_name
from .reading import create_topic, read_all


def test_only_what_was_committed_is_read(bootstrap_servers: str) -> None:
    topic = create_topic(bootstrap_servers, new_name(), 3)
    kept = []
    with Producer(bootstrap_servers, transactional_id=new_name("t")) as producer:
        for turn in range(10):
            values = [b"%d.%d" % (turn, n) for n in range(50)]
            producer.begin_transaction()
            producer.send(topic, b"%d.send" % turn)
            producer.send_many(topic, values)
            producer.submit(topic, b"%d.submit" % turn)
            if turn % 3 == 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
                kept += [*values, b"%d.send" % turn, b"%d.submit" % turn]
    found = [each.value or b"" for each in read_all(bootstrap_servers, topic)]
    assert sorted(found) == sorted(kept)


def test_offsets_are_committed_with_the_records(bootstrap_servers: str) -> None:
    topic, group = create_topic(bootstrap_servers, new_name()), new_name("group")
    tp = TopicPartition(topic, 0)
    with (
        Producer(bootstrap_servers, transactional_id=new_name("t")) as producer,
        Admin(bootstrap_servers) as admin,
    ):
        with producer.transaction():
            producer.send(topic, b"1")
            producer.send_offsets_to_transaction({tp: 5}, GroupMetadata(group))
        assert admin.list_group_offsets(group)[tp].offset == 5
        producer.begin_transaction()
        producer.send_offsets_to_transaction({tp: 9}, GroupMetadata(group))
        producer.abort_transaction()
        assert admin.list_group_offsets(group)[tp].offset == 5


def test_a_second_producer_fences_the_first(bootstrap_servers: str) -> None:
    topic, name = create_topic(bootstrap_servers, new_name()), new_name("t")
    with (
        Producer(bootstrap_servers, transactional_id=name) as old,
        Producer(bootstrap_servers, transactional_id=name) as new,
    ):
        old.begin_transaction()
        old.send(topic, b"old")
        new.begin_transaction()
        new.send(topic, b"new")
        with pytest.raises((ProducerFenced, TransactionFailed)):
            old.commit_transaction()
        with pytest.raises(TransactionLost, match="make a new one"):
            old.begin_transaction()
        new.commit_transaction()
    assert [each.value for each in read_all(bootstrap_servers, topic)] == [b"new"]


def test_a_record_too_large_leaves_the_producer_usable(bootstrap_servers: str) -> None:
    topic = create_topic(bootstrap_servers, new_name(), max_message_bytes="2000")
    with Producer(bootstrap_servers, transactional_id=new_name("t")) as producer:
        producer.begin_transaction()
        producer.send(topic, b"0")
        future = producer.submit(topic, b"x" * 3_000)
        with pytest.raises(TransactionFailed, match="abort_transaction"):
            producer.commit_transaction()
        assert future.exception(0)
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"1")
    assert [each.value for each in read_all(bootstrap_servers, topic)] == [b"1"]


def test_many_transactions_in_a_row(bootstrap_servers: str) -> None:
    topic = create_topic(bootstrap_servers, new_name(), 2)
    with Producer(bootstrap_servers, transactional_id=new_name("t")) as producer:
        for turn in range(100):
            with producer.transaction():
                producer.submit(topic, b"%d" % turn, partition=turn % 2)
    found: list[Any] = [each.value for each in read_all(bootstrap_servers, topic)]
    assert sorted(map(int, found)) == list(range(100))

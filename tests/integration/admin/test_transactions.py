"""Transactions of another client: found, described, fenced, aborted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer

from kclient import Admin, TopicPartition
from kclient.errors import InvalidRequest, PartialFailure
from kclient.testing import LocalKafka

from ..exchange import new_name, until


class Open:
    """A producer of librdkafka with a transaction that is not over."""

    def __init__(self, kafka: LocalKafka, admin: Admin) -> None:
        self.id, topic = new_name("tx"), new_name()
        admin.create_topic(topic, 2, 1)
        self.tp = TopicPartition(topic, 0)
        self.producer = Producer(
            {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": self.id}
        )
        self.producer.init_transactions(30)
        self.producer.begin_transaction()
        self.producer.produce(topic, b"pending", partition=0)
        assert self.producer.flush(30) == 0


@pytest.fixture
def open_(admin: Admin, solo: LocalKafka) -> Iterator[Open]:
    opened = Open(solo, admin)
    yield opened
    opened.producer.purge()


def end_for_readers(admin: Admin, tp: TopicPartition) -> int | None:
    """Up to where readers of committed records get."""
    return admin.list_offsets([tp], isolation_level="read_committed")[tp].offset


def test_an_open_transaction_is_found(admin: Admin, open_: Open) -> None:
    listed = admin.list_transactions(states=["Ongoing"])[open_.id]
    assert listed.state == "Ongoing"
    assert open_.id in admin.list_transactions(producer_ids=[listed.producer_id])
    assert open_.id in admin.list_transactions(id_pattern=f"{open_.id[:6]}.*")
    assert open_.id not in admin.list_transactions(longer_than_ms=3_600_000)
    described = admin.describe_transactions([open_.id])[open_.id]
    assert (described.state, described.partitions) == ("Ongoing", (open_.tp,))
    assert described.producer_id == listed.producer_id
    assert described.timeout_ms == 60_000
    (producer,) = admin.describe_producers([open_.tp])[open_.tp]
    assert producer.producer_id == listed.producer_id
    assert producer.transaction_start_offset == 0
    assert end_for_readers(admin, open_.tp) == 0


def test_a_fenced_producer_cannot_commit(admin: Admin, open_: Open) -> None:
    before = admin.describe_transactions([open_.id])[open_.id]
    fenced = admin.fence_producers([open_.id])[open_.id]
    assert (fenced.producer_id, fenced.epoch) > (before.producer_id, before.producer_epoch)
    assert admin.describe_transactions([open_.id])[open_.id].state != "Ongoing"
    until(lambda: (end_for_readers(admin, open_.tp) or 0) >= 2, "an abort marker is written")
    with pytest.raises(KafkaException, match="FENCED"):
        open_.producer.commit_transaction(30)


def test_a_hanging_transaction_is_aborted(admin: Admin, open_: Open) -> None:
    (producer,) = admin.describe_producers([open_.tp])[open_.tp]
    admin.abort_transaction(open_.tp, producer)
    assert end_for_readers(admin, open_.tp) == 2
    (after,) = admin.describe_producers([open_.tp])[open_.tp]
    assert after.transaction_start_offset is None


def test_what_is_not_there(admin: Admin, open_: Open) -> None:
    with pytest.raises(PartialFailure) as caught:
        admin.describe_transactions([open_.id, "nobody's"])
    assert list(caught.value.results) == [open_.id]
    assert "TRANSACTIONAL_ID_NOT_FOUND" in str(caught.value.failures["nobody's"])
    with pytest.raises(InvalidRequest, match="Kafka knows no states \\['Sleeping'\\]"):
        admin.list_transactions(states=["Sleeping"])

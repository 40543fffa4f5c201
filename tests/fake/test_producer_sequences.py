"""Idempotence: ids, epochs and sequence numbers, and what brokers may say about them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kclient import Producer
from kclient.delivery.sequences import LAST_EPOCH, ProducerId
from kclient.errors import KafkaTimeout, NotAuthorized
from kclient.testing import FakeCluster
from kclient.testing.fake import close_after, delay, drop, error_code

from .producing import TOPIC, TP, eventually, produced, quick, values

Start = Callable[..., FakeCluster]
OUT_OF_ORDER, DUPLICATE, OLD_EPOCH, UNKNOWN_PRODUCER = 45, 46, 47, 59


def rows(cluster: FakeCluster) -> list[tuple[int, int]]:
    """Epoch and first sequence number of each batch, in the order they arrived."""
    return [
        (batch.producer_epoch, batch.base_sequence)
        for seen in cluster.requests("Produce")
        for batch in produced(seen)
    ]


def test_numbers_count_records_and_one_id_serves_all(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster) as producer:
        producer.send(TOPIC, b"0")
        producer.send_many(TOPIC, [b"1", b"2", b"3"])
        producer.send(TOPIC, b"4")
    assert rows(cluster) == [(0, 0), (0, 1), (0, 4)]
    assert len(cluster.requests("InitProducerId")) == 1


def test_without_idempotence_there_are_no_numbers(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster, enable_idempotence=False) as producer:
        producer.send(TOPIC, b"0")
        cluster.on("Produce", close_after())
        producer.send(TOPIC, b"1")
    assert rows(cluster) == [(-1, -1)] * 3
    assert values(cluster) == [b"0", b"1", b"1"], "the price of doing without"
    assert not cluster.requests("InitProducerId")


@pytest.mark.parametrize("code", [OUT_OF_ORDER, OLD_EPOCH, UNKNOWN_PRODUCER])
def test_a_gap_raises_the_epoch_and_starts_the_row_anew(code: int, fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster) as producer:
        producer.send_many(TOPIC, [b"0", b"1"])
        cluster.on("Produce", error_code(code))
        producer.send(TOPIC, b"2")
        producer.send(TOPIC, b"3")
    assert rows(cluster) == [(0, 0), (0, 2), (1, 0), (1, 1)]
    assert values(cluster) == [b"0", b"1", b"2", b"3"]


def test_after_an_epoch_is_raised_other_partitions_follow_in_their_time(
    fake_cluster: Start,
) -> None:
    cluster = fake_cluster(topics={TOPIC: 2})
    with quick(cluster) as producer:
        for partition in (0, 1, 0, 1):
            producer.send(TOPIC, b"", partition=partition)
        cluster.on("Produce", error_code(OUT_OF_ORDER))
        producer.send(TOPIC, b"", partition=0)
        assert producer.send(TOPIC, b"", partition=1).offset == 2
    assert rows(cluster) == [(0, 0), (0, 0), (0, 1), (0, 1), (0, 2), (1, 0), (1, 0)]


def test_all_in_flight_behind_a_gap_are_numbered_anew_in_order(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    sent = [b"%03d" % number for number in range(100)]
    with quick(cluster, batch_size=120, linger_ms=0) as producer:
        producer.send(TOPIC, b"first")
        cluster.on("Produce", delay(0.02), times=3)
        cluster.on("Produce", error_code(OUT_OF_ORDER), nth=2)
        producer.send_many(TOPIC, sent)
    assert values(cluster) == [b"first", *sent]


def test_duplicate_is_success(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster) as producer:
        producer.send(TOPIC, b"0")
        cluster.on("Produce", error_code(DUPLICATE, processed=True))
        producer.send(TOPIC, b"1")
        assert producer.send(TOPIC, b"2").offset == 2
    assert values(cluster) == [b"0", b"1", b"2"]
    assert rows(cluster) == [(0, 0), (0, 1), (0, 2)]


@pytest.mark.parametrize("newest", [7, 11])
def test_a_broker_that_forgot_the_producer(newest: int, fake_cluster: Start) -> None:
    """Before KIP-360 it refused an unknown producer's later numbers; since then it takes them."""
    cluster = fake_cluster(topics={TOPIC: 1}, speaks={"Produce": newest})
    with quick(cluster) as producer:
        for number in range(3):
            producer.send(TOPIC, b"%d" % number)
        (batch,) = produced(cluster.requests("Produce")[0])
        cluster.forget_producer(TP, batch.producer_id)
        for number in range(3, 6):
            producer.send(TOPIC, b"%d" % number)
    assert values(cluster) == [b"%d" % number for number in range(6)]


def test_the_first_batch_of_a_partition_goes_alone(fake_cluster: Start) -> None:
    """A broker that knows nothing of us takes any number: the second must not come first."""
    cluster = fake_cluster(topics={TOPIC: 1})
    first = cluster.on("Produce", error_code(7))
    sent = [b"%03d" % number for number in range(100)]
    with quick(cluster, batch_size=120, linger_ms=0) as producer:
        producer.send_many(TOPIC, sent)
    assert first.hits
    assert values(cluster) == sent
    assert rows(cluster)[:2] == [(0, 0), (0, 0)]


def test_numbers_wrap_after_the_largest(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1}, max_message_bytes=400)
    sent = [b"%03d" % number + b"x" * 27 for number in range(60)]
    with quick(cluster, batch_size=1_000) as producer:
        producer.send(TOPIC, b"first")
        row = producer._accumulator.partitions[TP].row
        producer_id = row.owner.number
        row.next = (1 << 31) - 10
        cluster.forget_producer(TP, producer_id)
        producer.send_many(TOPIC, sent)  # in batches that have to be split, too
    assert values(cluster) == [b"first", *sent]
    numbers = [sequence for _, sequence in rows(cluster)]
    assert max(numbers) >= (1 << 31) - 10
    assert 0 < min(numbers[1:]) < 60


def test_when_epochs_are_used_up_a_new_id_is_asked_for(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster) as producer:
        producer.send(TOPIC, b"0")
        sequences = producer._identity.sequences
        sequences.take(ProducerId(sequences.current.number, LAST_EPOCH))
        producer.send(TOPIC, b"1")
        cluster.on("Produce", error_code(OUT_OF_ORDER))
        producer.send(TOPIC, b"2")
        producer.send(TOPIC, b"3")
    assert values(cluster) == [b"0", b"1", b"2", b"3"]
    assert len(cluster.requests("InitProducerId")) == 2
    assert rows(cluster) == [(0, 0), (LAST_EPOCH, 0), (LAST_EPOCH, 1), (0, 0), (0, 1)]


def test_what_was_given_up_leaves_no_hole_that_stops_the_rest(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster, delivery_timeout_ms=400, request_timeout_ms=150) as producer:
        producer.send(TOPIC, b"0")
        lost = cluster.on("Produce", drop(), times=None)
        assert isinstance(producer.submit(TOPIC, b"lost").exception(10), KafkaTimeout)
        lost.cancel()
        assert producer.send(TOPIC, b"1", timeout=10).offset == 1
        assert producer.send(TOPIC, b"2", timeout=10).offset == 2
    assert values(cluster) == [b"0", b"1", b"2"]
    assert rows(cluster)[-2:] == [(1, 0), (1, 1)]


def test_an_id_is_asked_for_again_until_it_comes(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    cluster.on("InitProducerId", error_code(14), times=3)
    with quick(cluster) as producer:
        assert producer.send(TOPIC, b"0").offset == 0
    assert len(cluster.requests("InitProducerId")) == 4


def test_an_id_that_is_refused(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    refused = cluster.on("InitProducerId", error_code(31), times=None)
    with quick(cluster) as producer:
        with pytest.raises(NotAuthorized, match="IdempotentWrite"):
            producer.send(TOPIC, b"0")
        refused.cancel()
        assert producer.send(TOPIC, b"1", timeout=10).offset == 0


def test_waiting_for_an_id_does_not_keep_the_processor_busy(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    cluster.on("InitProducerId", delay(0.3))
    with quick(cluster) as producer:
        steps = count_steps(producer)
        producer.send(TOPIC, b"0")
    assert len(steps) < 30


def test_waiting_does_not_keep_the_processor_busy(fake_cluster: Start) -> None:
    cluster = fake_cluster(brokers=2, topics={TOPIC: 1}, replication=1)
    with quick(cluster, request_timeout_ms=2000) as producer:
        producer.send(TOPIC, b"0")
        steps = count_steps(producer)
        cluster.pause(cluster.leader(TP))
        future = producer.submit(TOPIC, b"1")
        with pytest.raises(TimeoutError):
            future.result(0.5)
        assert len(steps) < 30
        cluster.resume(cluster.leader(TP))
        future.result(10)
        leader = cluster.leader(TP)
        cluster.kill(leader)
        steps.clear()
        future = producer.submit(TOPIC, b"2")
        with pytest.raises(TimeoutError):
            future.result(0.5)
        assert len(steps) < 300  # it is connected to again every 20 ms, and metadata asked for
        cluster.start(leader)
        eventually(future.done, "delivered when the broker is back")


def count_steps(producer: Producer) -> list[float]:
    """Each step of the engine from now on."""
    steps: list[float] = []
    engine = producer._engine
    real = engine.step

    def counted(until: float) -> None:
        steps.append(until)
        real(until)

    engine.step = counted  # type: ignore[method-assign]
    return steps

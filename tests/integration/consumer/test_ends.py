"""How it ends: close() with brokers that are up, gone or silent; idle; threads and their locks."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from kclient import Consumer, TopicPartition
from kclient.testing import LocalKafka

from ..exchange import new_name
from .steps import consumer_of, new_topic, poll_until, read, write


@pytest.fixture(scope="module")
def kafka(local_kafka_factory: Callable[..., LocalKafka]) -> Iterator[LocalKafka]:
    """A broker of its own, for it is killed and stopped."""
    with local_kafka_factory() as kafka:
        yield kafka


@pytest.fixture
def consumer(kafka: LocalKafka) -> Iterator[Consumer]:
    """A member that has read something that is not committed yet."""
    topic = new_topic(kafka.bootstrap_servers)
    write(kafka.bootstrap_servers, topic, [b"1", b"2"])
    consumer = consumer_of(kafka.bootstrap_servers, group_id=new_name("g"))
    consumer.subscribe(topic)
    read(consumer, count=2)
    yield consumer
    consumer.close(0.1)


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("kclient")]


def closed_within(consumer: Consumer, timeout: float) -> float:
    """Close, and return the seconds that it took."""
    started = time.monotonic()
    consumer.close(timeout)
    return time.monotonic() - started


def test_close_with_the_broker_up(consumer: Consumer) -> None:
    assert closed_within(consumer, 10.0) < 2.0
    assert not threads()


def test_close_with_a_silent_broker(kafka: LocalKafka, consumer: Consumer) -> None:
    os.kill(kafka.pid(1), signal.SIGSTOP)
    try:
        assert closed_within(consumer, 2.0) < 3.5
    finally:
        os.kill(kafka.pid(1), signal.SIGCONT)


def test_close_with_the_broker_gone(kafka: LocalKafka, consumer: Consumer) -> None:
    kafka.kill(1)
    try:
        assert closed_within(consumer, 2.0) < 3.5
    finally:
        kafka.start(1)
        kafka.await_ready()


def test_broker_comes_back_under_a_member(kafka: LocalKafka, consumer: Consumer) -> None:
    topic = next(iter(consumer.subscription()))
    kafka.kill(1)
    assert consumer.poll(1.0) == []
    health = consumer.health()[TopicPartition(topic, 0)]
    assert health.reason
    kafka.start(1)
    write(kafka.bootstrap_servers, topic, [b"3"])
    got = poll_until(lambda: consumer.position(TopicPartition(topic, 0)) == 3, consumer)
    assert [record.value for record in got][-1] == b"3"
    consumer.commit()


def test_idle_consumer_costs_next_to_nothing(kafka: LocalKafka) -> None:
    """Under one percent of a core, and no busy loop: few steps of the engine."""
    topic = new_topic(kafka.bootstrap_servers, partitions=20)
    with consumer_of(kafka.bootstrap_servers, group_id=new_name("g")) as consumer:
        consumer.subscribe(topic)
        poll_until(lambda: len(consumer.assignment()) == 20, consumer)
        consumer.poll(1.0)
        before, steps = resource.getrusage(resource.RUSAGE_SELF), consumer._fetcher.steps
        assert consumer.poll(5.0) == []
        after = resource.getrusage(resource.RUSAGE_SELF)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        assert consumer._fetcher.steps - steps < 60, (
            "long polls of half a second, one look a second"
        )
        assert spent < 0.15

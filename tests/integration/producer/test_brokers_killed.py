"""Three brokers, killed with -9 in turn, while threads produce in every way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from kclient import Producer
from kclient.testing import LocalKafka

from ..exchange import new_name
from .reading import by_key, create_topic, read_all

SECONDS = 40
"""How long threads produce; brokers are killed all the while."""


class Ledger:
    """What was acknowledged: values by key, in the order they were sent."""

    def __init__(self) -> None:
        self.values: dict[bytes, list[bytes]] = {}
        self.failures: list[BaseException] = []
        self.is_over = threading.Event()

    def run(self, work: Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                while not self.is_over.is_set():
                    work()
            except BaseException as error:
                self.failures.append(error)
                raise

        thread = threading.Thread(target=guarded)
        thread.start()
        return thread


def senders(producer: Producer, topic: str, ledger: Ledger) -> list[Callable[[], None]]:
    """Each does one round of work by one way of sending, under keys of its own."""

    def send(key: bytes) -> Callable[[], None]:
        done = ledger.values.setdefault(key, [])

        def work() -> None:
            value = b"%d" % len(done)
            producer.send(topic, value, key=key)
            done.append(value)

        return work

    def submit() -> None:
        done = ledger.values.setdefault(b"submit", [])
        values = [b"%d" % (len(done) + n) for n in range(200)]
        futures = [producer.submit(topic, value, key=b"submit") for value in values]
        for future in futures:
            future.result()
        done += values

    def send_many() -> None:
        keys = [b"many %d" % n for n in range(7)]
        rows = {key: ledger.values.setdefault(key, []) for key in keys}
        pairs = [(key, b"%d" % (len(rows[key]) + n)) for n in range(50) for key in keys]
        producer.send_many(topic, pairs)
        for key, value in pairs:
            rows[key].append(value)

    return [send(b"send 0"), send(b"send 1"), submit, send_many]


@pytest.mark.timeout(240)
def test_every_acknowledged_record_is_there_once_in_order(
    local_kafka_factory: Callable[..., LocalKafka],
) -> None:
    kafka = local_kafka_factory(brokers=3)
    topic = create_topic(kafka, new_name(), 6)
    ledger = Ledger()
    with Producer(kafka.bootstrap_servers) as producer:
        threads = [ledger.run(work) for work in senders(producer, topic, ledger)]
        end, node, kills = time.monotonic() + SECONDS, 0, 0
        while time.monotonic() < end and not ledger.failures:
            node = node % 3 + 1
            kafka.kill(node)
            kills += 1
            kafka.start(node)
        ledger.is_over.set()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()
    assert not ledger.failures
    assert kills >= 3
    assert all(len(values) >= 10 for values in ledger.values.values())
    assert by_key(read_all(kafka.bootstrap_servers, topic)) == ledger.values
    kafka.close()

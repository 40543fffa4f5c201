"""A group under churn: its coordinator killed, members joining and leaving, while records flow."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from kclient import Consumer, TopicPartition
from kclient.errors import KafkaError
from kclient.testing import LocalKafka

from .steps import consumer_of, new_topic, write

SECONDS = 45.0
PARTITIONS = 8
UNOWNED_BOUND = 25.0  # seconds: session, detection of a dead broker, and a rebalance


@pytest.fixture(scope="module")
def kafka(local_kafka_factory: Callable[..., LocalKafka]) -> Iterator[LocalKafka]:
    with local_kafka_factory(brokers=3) as kafka:
        yield kafka


class Ledger:
    """Who owns what in which generation, and which records were dealt with."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.owners: dict[tuple[int, TopicPartition], str] = {}
        self.twice: list[str] = []
        self.done: dict[bytes, int] = {}
        self.read_at: dict[int, float] = {}

    def assigned(self, member: str, generation: int, tps: set[TopicPartition]) -> None:
        with self._lock:
            for tp in tps:
                owner = self.owners.setdefault((generation, tp), member)
                if owner != member:
                    self.twice.append(f"{tp} in generation {generation}: {owner} and {member}")

    def deal_with(self, partition: int, value: bytes) -> None:
        with self._lock:
            self.done[value] = self.done.get(value, 0) + 1
            self.read_at[partition] = time.monotonic()


class Worker(threading.Thread):
    """A member that reads, deals with what it reads, commits, and leaves when told to."""

    def __init__(self, servers: str, topic: str, ledger: Ledger, strategy: str) -> None:
        super().__init__(name="worker")
        group = f"group-of-{topic}"
        self.consumer: Consumer = consumer_of(
            servers,
            group_id=group,
            partition_assignment_strategy=[strategy],
            session_timeout_ms=6_000,
            heartbeat_interval_ms=500,
            enable_auto_commit=False,
            request_timeout_ms=5_000,
        )
        self.ledger, self.topic = ledger, topic
        self.must_leave = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with self.consumer as consumer:
                consumer.subscribe(self.topic)
                while not self.must_leave.is_set():
                    self._work(consumer)
        except BaseException as error:
            self.failure = error

    def _work(self, consumer: Consumer) -> None:
        for record in consumer.poll(0.2):
            self.ledger.deal_with(record.partition, record.value or b"")
        member = consumer.group_metadata()
        if member.generation_id >= 0:
            self.ledger.assigned(member.member_id, member.generation_id, consumer.assignment())
        with suppress(KafkaError):  # the group may have moved on: then they come twice
            consumer.commit(timeout=5.0)

    def leave(self) -> None:
        self.must_leave.set()
        self.consumer.wakeup()
        self.join(45)
        assert not self.is_alive()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_churn(kafka: LocalKafka, strategy: str) -> None:
    servers = kafka.bootstrap_servers
    topic = new_topic(servers, PARTITIONS, 3, {"min.insync.replicas": "2"})
    ledger, chance = Ledger(), random.Random(7)
    workers = [Worker(servers, topic, ledger, strategy) for _ in range(3)]
    written: list[bytes] = []
    is_over = threading.Event()
    writer = threading.Thread(target=_write_on, args=(servers, topic, written, is_over))
    for each in (*workers, writer):
        each.start()
    gone: list[Worker] = []
    started, killed = time.monotonic(), 0
    try:
        while time.monotonic() - started < SECONDS:
            time.sleep(chance.uniform(2, 4))
            if chance.random() < 0.5 and len(workers) > 1:
                gone.append(workers.pop(chance.randrange(len(workers))))
                gone[-1].leave()
            elif len(workers) < 5:
                workers.append(Worker(servers, topic, ledger, strategy))
                workers[-1].start()
            if not killed and time.monotonic() - started > SECONDS / 3:
                killed = _kill_coordinator(kafka, workers[0])
            elif killed and not kafka.running(killed) and time.monotonic() - started > SECONDS / 2:
                kafka.start(killed, wait=False)
        is_over.set()
        writer.join(60)
        _await_all(ledger, written)
    finally:
        is_over.set()
        for each in workers:
            each.leave()
        if killed and not kafka.running(killed):
            kafka.start(killed)
        kafka.await_ready()
    assert [each.failure for each in (*workers, *gone) if each.failure] == []
    assert ledger.twice == []
    assert set(written) <= set(ledger.done), "at least once"


def _write_on(servers: str, topic: str, written: list[bytes], is_over: threading.Event) -> None:
    number = 0
    while not is_over.wait(0.2):
        values = [b"%d" % each for each in range(number, number + 50)]
        write(servers, topic, values, config={"acks": "all", "delivery.timeout.ms": 60_000})
        written += values
        number += 50


def _kill_coordinator(kafka: LocalKafka, member: Worker) -> int:
    """End the coordinator of a member's group with SIGKILL."""
    link = vars(member.consumer._group._member)["_link"]
    node = int(link.endpoint.node)
    kafka.kill(node)
    return node


def _await_all(ledger: Ledger, written: list[bytes]) -> None:
    """Until every record was dealt with; no partition may wait longer than the bound."""
    end = time.monotonic() + UNOWNED_BOUND
    wanted = set(written)
    while not wanted <= set(ledger.done):
        missing = len(wanted - set(ledger.done))
        assert time.monotonic() < end, f"{missing} records were not read in {UNOWNED_BOUND} s"
        time.sleep(0.2)

"""Groups on a real broker: members of kclient, of Java and of librdkafka together."""

from __future__ import annotations

import collections
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from kclient import Admin, Consumer, TopicPartition
from kclient.testing import LocalKafka, jars
from kclient.testing.toolchain import java_command

from ..exchange import new_name, until
from .steps import consumer_of, new_topic, partitions_of, poll_until, polls, read, write

QUICK = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 300}
STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky"]


@pytest.fixture(scope="module")
def servers(local_kafka: LocalKafka) -> str:
    return local_kafka.bootstrap_servers


@pytest.fixture
def consume(servers: str) -> Iterator[Callable[..., Consumer]]:
    with ExitStack() as stack:

        def make(**options: Any) -> Consumer:
            consumer = consumer_of(servers, **{**QUICK, **options})
            stack.callback(consumer.close)
            return consumer

        yield make


def is_shared(topic: str, count: int, *consumers: Consumer) -> bool:
    owned = [tp for consumer in consumers for tp in consumer.assignment()]
    return sorted(owned) == partitions_of(topic, count) and all(c.assignment() for c in consumers)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_members_come_and_go(servers: str, consume: Callable[..., Consumer], strategy: str) -> None:
    topic, group = new_topic(servers, partitions=6), new_name("group")
    options = {"group_id": group, "partition_assignment_strategy": [strategy]}
    first, second, third = (consume(**options) for _ in range(3))
    got = []
    written = 0

    def write_more() -> None:
        nonlocal written
        write(servers, topic, [b"%d" % n for n in range(written, written + 60)])
        written += 60

    first.subscribe(topic)
    got += poll_until(lambda: is_shared(topic, 6, first), first)
    write_more()
    second.subscribe([topic])
    third.subscribe([topic])
    got += poll_until(lambda: is_shared(topic, 6, first, second, third), first, second, third)
    write_more()
    second.close()
    got += poll_until(lambda: is_shared(topic, 6, first, third), first, third)
    write_more()
    for some in polls(first, third):
        got += some
        if len({record.value for record in got}) == written:
            break
    assert len(got) == written, "nothing twice: everything was committed before it was given up"


@pytest.mark.parametrize(
    ("strategy", "java_class"),
    [("range", "RangeAssignor"), ("cooperative-sticky", "CooperativeStickyAssignor")],
)
def test_one_group_of_three_clients(
    servers: str, consume: Callable[..., Consumer], strategy: str, java_class: str
) -> None:
    """A member of Java, one of librdkafka, one of kclient: each partition is read once."""
    topic, group = new_topic(servers, partitions=9), new_name("group")
    mine = consume(group_id=group, partition_assignment_strategy=[strategy])
    mine.subscribe(topic)
    poll_until(lambda: is_shared(topic, 9, mine), mine)
    theirs = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": strategy,
        }
    )
    theirs.subscribe([topic])
    with java_consumer(servers, topic, group, java_class) as (java, lines), Admin(servers) as admin:

        def is_spread() -> bool:
            theirs.poll(0.05)
            (found,) = admin.describe_groups([group]).values()
            shares = [len(member.assignment) for member in found.members]
            told = [len(mine.assignment()), len(theirs.assignment())]
            return shares == [3, 3, 3] and told == [3, 3]

        poll_until(is_spread, mine)
        (found,) = admin.describe_groups([group]).values()
        owned = sorted(tp for member in found.members for tp in member.assignment)
        assert owned == partitions_of(topic, 9)
        values = [b"%d" % number for number in range(900)]
        write(servers, topic, values)
        got: collections.Counter[bytes] = collections.Counter()
        for some in polls(mine):
            got.update(record.value or b"" for record in some)
            for message in theirs.consume(1000, 0.1):
                got[message.value() or b""] += 1
            if len(got) + len(lines) >= 900:
                break
        got.update(lines)
        assert got == collections.Counter(values), "every record once"
        # Java leaves: the others take over what it had.
        java.send_signal(signal.SIGTERM)
        java.wait(30)
        poll_until(
            lambda: (
                theirs.poll(0.05) is None and len(mine.assignment()) + len(theirs.assignment()) == 9
            ),
            mine,
        )
    theirs.close()


class java_consumer:  # noqa: N801 - reads like a function
    """Java's console consumer as a member; its output lines are collected."""

    def __init__(self, servers: str, topic: str, group: str, assignor: str) -> None:
        self._command = [
            java_command(),
            "-Xmx256m",
            "-cp",
            jars.classpath("4.3.1"),
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            "--bootstrap-server",
            servers,
            "--topic",
            topic,
            "--group",
            group,
            "--command-property",
            f"partition.assignment.strategy=org.apache.kafka.clients.consumer.{assignor}",
            "--command-property",
            "heartbeat.interval.ms=300",
        ]

    def __enter__(self) -> tuple[subprocess.Popen[bytes], list[bytes]]:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        lines: list[bytes] = []

        def collect() -> None:
            assert self._process.stdout is not None
            for line in self._process.stdout:
                lines.append(line.rstrip())

        self._reader = threading.Thread(target=collect)
        self._reader.start()
        return self._process, lines

    def __exit__(self, *exc_info: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


def test_static_member_is_back_without_a_rebalance(
    servers: str, consume: Callable[..., Consumer]
) -> None:
    topic, group = new_topic(servers, partitions=4), new_name("group")
    other = consume(group_id=group, group_instance_id="other")
    other.subscribe(topic)
    first = consume(group_id=group, group_instance_id="static")
    first.subscribe(topic)
    poll_until(lambda: is_shared(topic, 4, first, other), first, other)
    had, generation = first.assignment(), other.group_metadata().generation_id
    first.close()
    again = consume(group_id=group, group_instance_id="static")
    again.subscribe(topic)
    poll_until(lambda: again.assignment() == had, again, other)
    assert other.group_metadata().generation_id == generation
    assert is_shared(topic, 4, again, other)


def test_crash_in_the_middle_of_iterating_loses_nothing(servers: str) -> None:
    topic, group = new_topic(servers, partitions=2), new_name("group")
    values = {b"%d" % number for number in range(400)}
    write(servers, topic, sorted(values))
    done: list[bytes] = []
    options = {**QUICK, "group_id": group, "auto_commit_interval_ms": 1}
    for lives in (37, 150, 90):
        with pytest.raises(ZeroDivisionError), consumer_of(servers, **options) as consumer:
            consumer.subscribe(topic)
            for number, record in enumerate(consumer):
                if number == lives:
                    raise ZeroDivisionError  # before this record was dealt with
                done.append(record.value or b"")
    with consumer_of(servers, **options) as consumer:
        consumer.subscribe(topic)
        for record in consumer:
            done.append(record.value or b"")
            if values == set(done):
                break
    assert len(done) == 400, "nothing was lost, and nothing done twice"


def test_commits(servers: str, consume: Callable[..., Consumer]) -> None:
    topic, group = new_topic(servers), new_name("group")
    tp = TopicPartition(topic, 0)
    write(servers, topic, [b"%d" % number for number in range(100)])
    consumer = consume(group_id=group, enable_auto_commit=False, max_poll_records=10)
    consumer.subscribe(topic)
    assert len(read(consumer, count=10)) == 10
    consumer.commit()
    assert _committed(servers, group, tp) == 10
    consumer.poll(5.0)
    consumer.commit_async()
    until(lambda: _committed(servers, group, tp) == 20, "the commit in the background")
    consumer.commit({tp: 5})
    assert _committed(servers, group, tp) == 5
    found = consumer.committed([tp])[tp]
    assert found is not None
    assert found.offset == 5
    consumer.close()
    assert _committed(servers, group, tp) == 5


def _committed(servers: str, group: str, tp: TopicPartition) -> int | None:
    with Admin(servers) as admin:
        found = admin.list_group_offsets(group).get(tp)
        return None if found is None else found.offset


def test_max_poll_interval(
    servers: str, consume: Callable[..., Consumer], caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = new_topic(servers, partitions=2), new_name("group")
    lost: list[TopicPartition] = []
    slow = consume(group_id=group, max_poll_interval_ms=2_000)
    slow.subscribe(topic, on_lost=lost.extend)
    poll_until(lambda: is_shared(topic, 2, slow), slow)
    quick = consume(group_id=group)
    quick.subscribe(topic)
    poll_until(lambda: is_shared(topic, 2, quick), quick)  # while the slow one is busy
    assert "no poll for" in caplog.text
    poll_until(lambda: is_shared(topic, 2, slow, quick), slow, quick)
    assert sorted(lost) == partitions_of(topic, 2)


def test_heartbeats_during_slow_processing(servers: str, consume: Callable[..., Consumer]) -> None:
    topic, group = new_topic(servers), new_name("group")
    consumer = consume(group_id=group)
    consumer.subscribe(topic)
    poll_until(lambda: is_shared(topic, 1, consumer), consumer)
    generation = consumer.group_metadata()
    time.sleep(8)  # longer than a session
    write(servers, topic, [b"1"])
    assert read(consumer, count=1) == [b"1"]
    consumer.commit()
    assert consumer.group_metadata() == generation


CTRL_C = """
import sys
from kclient import Consumer
with Consumer(sys.argv[1], group_id="ctrl-c", auto_offset_reset="earliest") as consumer:
    consumer.subscribe(sys.argv[2])
    for record in consumer:
        print("reading", flush=True)
"""


@pytest.mark.parametrize("how", ["for record in consumer", "while True: consumer.poll(60)"])
def test_ctrl_c_interrupts_at_once(servers: str, how: str) -> None:
    topic = new_topic(servers)
    write(servers, topic, [b"1"])
    script = CTRL_C
    if how.startswith("while"):
        script = script.replace(
            "    for record in consumer:\n        print",
            "    while True:\n        for _ in consumer.poll(60): print",
        )
    process = subprocess.Popen(
        [sys.executable, "-c", script, servers, topic],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"reading\n"
        time.sleep(0.3)  # it waits for more by now
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert time.monotonic() - started < 5, "poll(60) was not interrupted"
        assert b"KeyboardInterrupt" in errors
    finally:
        process.kill()
        process.communicate()


def test_child_process_is_told(servers: str, consume: Callable[..., Consumer]) -> None:
    topic = new_topic(servers)
    consumer = consume()
    consumer.assign([TopicPartition(topic, 0)])
    consumer.poll(0.5)
    child = os.fork()
    if not child:
        try:
            consumer.poll(0.1)
        except Exception as error:
            consumer.close()
            os._exit(7 if type(error).__name__ == "ForkedClientError" else 1)
        os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    write(servers, topic, [b"1"])
    assert read(consumer, count=1) == [b"1"], "the parent's connections are as before"

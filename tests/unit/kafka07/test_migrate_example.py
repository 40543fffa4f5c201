"""The example that moves a topic of Kafka 0.7 to a real Kafka of today, killed on its way."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from kclient import Admin, Consumer, TopicPartition
from kclient.kafka07 import Client
from kclient.testing import LocalKafka

from .memory_broker import MemoryBroker, wait_until

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "migrate_07.py"
PAYLOADS = [b"payload %d" % number for number in range(2500)]


def command(old: MemoryBroker, *arguments: str) -> list[str]:
    return [sys.executable, str(EXAMPLE), f"127.0.0.1:{old.port}", "orders", *arguments]


def run(old: MemoryBroker, *arguments: str) -> str:
    done = subprocess.run(command(old, *arguments), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fill(old: MemoryBroker, payloads: list[bytes], partition: int = 0) -> None:
    """Plain and compressed messages, in turn."""
    with Client("127.0.0.1", old.port, timeout=5) as writer:
        for start in range(0, len(payloads), 50):
            codec = "gzip" if start % 100 else None
            writer.produce("orders", partition, payloads[start : start + 50], compression=codec)
        end = writer.offsets("orders", partition, -1)  # answered when all before it is taken
        assert end[0] > 0


def end_offset(servers: str, tp: TopicPartition) -> int:
    with Admin(servers) as admin:
        return admin.list_offsets([tp])[tp].offset or 0


def values(servers: str, tp: TopicPartition) -> list[bytes | None]:
    """Everything there is, of transactions that were committed."""
    found: list[bytes | None] = []
    with Consumer(
        servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign([tp])
        end = consumer.end_offsets([tp])[tp]
        while consumer.position(tp) < end:
            found += [record.value for record in consumer.poll(1.0)]
    return found


@pytest.fixture
def topic(local_kafka: LocalKafka) -> str:
    name = f"from-0.7-{uuid.uuid4().hex[:8]}"
    with Admin(local_kafka.bootstrap_servers) as admin:
        admin.create_topic(name, 2, 1)
    return name


def test_a_topic_is_moved_and_a_second_run_goes_on_from_there(
    local_kafka: LocalKafka, topic: str
) -> None:
    servers = local_kafka.bootstrap_servers
    goal = ("--to", servers, "--to-topic", topic, "--partitions", "2")
    with MemoryBroker() as old:
        fill(old, PAYLOADS)
        fill(old, PAYLOADS[:50], partition=1)
        told = run(old, *goal)
        assert told.endswith("2550 messages read, all written\n")
        assert "orders/0: 2500 messages" in told
        assert run(old, *goal).endswith("0 messages read, all written\n")
        fill(old, [b"later"])
        assert run(old, *goal).endswith("1 messages read, all written\n")
    assert values(servers, TopicPartition(topic, 0)) == [*PAYLOADS, b"later"]
    assert values(servers, TopicPartition(topic, 1)) == PAYLOADS[:50]


def test_killed_at_any_moment_nothing_is_lost_or_doubled(
    local_kafka: LocalKafka, topic: str
) -> None:
    servers, tp = local_kafka.bootstrap_servers, TopicPartition(topic, 0)
    goal = ("--to", servers, "--to-topic", topic, "--max-size", "1600")
    with MemoryBroker() as old:
        fill(old, PAYLOADS)
        for _ in range(4):
            seen = end_offset(servers, tp)
            process = subprocess.Popen(command(old, *goal), stdout=subprocess.DEVNULL)
            try:
                wait_until(lambda before=seen: end_offset(servers, tp) > before + 150)  # type: ignore[misc]
                assert process.poll() is None
            finally:
                process.kill()
                process.wait(30)
        told = run(old, *goal)
    assert not told.endswith("2500 messages read, all written\n")
    assert values(servers, tp) == PAYLOADS


def test_a_dry_run_writes_nothing() -> None:
    with MemoryBroker() as old:
        fill(old, PAYLOADS)
        assert run(old, "--dry-run").endswith("2500 messages read, none written (dry run)\n")


def test_a_terminal_gets_a_bar() -> None:
    parent, child = os.openpty()
    with MemoryBroker() as old, os.fdopen(parent, "rb", buffering=0) as terminal:
        fill(old, PAYLOADS)
        with os.fdopen(child, "wb") as output:
            # What it prints fits into the terminal's buffer: it can be read afterwards.
            environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
            subprocess.run(
                command(old, "--dry-run"), stdout=output, env=environment, timeout=60, check=True
            )
            shown = b""
            while b"2500 messages read" not in shown:
                shown += terminal.read(4096)
    assert b"100%" in shown


def test_moving_needs_a_goal() -> None:
    with MemoryBroker() as old:
        done = subprocess.run(command(old), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--to host:9092, or add --dry-run" in done.stderr

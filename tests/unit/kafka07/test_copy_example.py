"""The example that copies a topic of Kafka 0.7 into a real Kafka of today."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kclient import Consumer, TopicPartition
from kclient.kafka07 import Client
from kclient.testing import LocalKafka

from .memory_broker import MemoryBroker

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "copy_kafka07_topic.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLE), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def values(servers: str, topic: str, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    with Consumer(servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(found) < count and (records := consumer.poll(timeout=30.0)):
            found += [record.value for record in records]
    return found


def test_a_topic_of_kafka_0_7_is_copied(local_kafka: LocalKafka) -> None:
    topic = "copied-from-0.7"
    payloads = [b"payload %d" % number for number in range(2500)]
    with MemoryBroker() as old, Client("127.0.0.1", old.port, timeout=5) as writer:
        writer.produce("orders", 0, payloads[:1250])
        writer.produce("orders", 0, payloads[1250:], compression="gzip")
        assert len(list(writer.consume("orders", 0))) == len(payloads)
        old_broker = f"127.0.0.1:{old.port}"
        goal = ["--to", local_kafka.bootstrap_servers, "--to-topic", topic]
        done = run(old_broker, "orders", *goal)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("2500 messages read, all written\n")
    assert values(local_kafka.bootstrap_servers, topic, len(payloads)) == payloads


def test_copying_needs_a_goal() -> None:
    done = run("127.0.0.1:1", "orders")
    assert done.returncode == 2
    assert "--to host:9092, or add --dry-run" in done.stderr

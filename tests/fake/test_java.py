"""Kafka's own client and tools, from its jars, work with the fake as they do with a broker."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kclient import ProducerRecord, TopicPartition, records
from kclient.testing import FakeCluster
from kclient.testing.jars import classpath
from kclient.testing.toolchain import java_command

COUNT = 50
Start = Callable[..., FakeCluster]


def run_java(main: str, *args: str, text: str = "") -> str:
    """What a tool prints; it has a minute."""
    command = [java_command(), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", classpath("4.3.1")]
    done = subprocess.run(
        [*command, main, *args], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def stored(cluster: FakeCluster, partitions: int) -> int:
    places = [TopicPartition("orders", index) for index in range(partitions)]
    return sum(len(cluster.records(place)) for place in places)


@pytest.mark.parametrize("transactional", [False, True])
def test_the_java_producer_writes(fake_cluster: Start, transactional: bool) -> None:
    cluster = fake_cluster(brokers=3, topics={"orders": 3})
    options = ["--transactional-id", "t", "--transaction-duration-ms", "100"]
    run_java(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", "orders", "--num-records", str(COUNT), "--record-size", "10"),
        *("--throughput", "-1"),
        *(options if transactional else []),
        *("--producer-props", f"bootstrap.servers={cluster.bootstrap_servers}"),
    )
    assert stored(cluster, 3) == COUNT
    assert bool(cluster.requests("EndTxn")) is transactional
    assert cluster.malformed == []


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_java_consumer_reads_in_a_group(
    fake_cluster: Start, protocol: str, tmp_path: Path
) -> None:
    cluster = fake_cluster(brokers=3, topics={"orders": 3}, group_heartbeat_interval_ms=100)
    for number in range(COUNT):
        batch = records.encode([ProducerRecord("orders", b"value %d" % number)])
        cluster.append(TopicPartition("orders", number % 3), batch)
    config = tmp_path / "consumer.properties"
    config.write_text(f"group.protocol={protocol}\n")
    printed = run_java(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", cluster.bootstrap_servers, "--topic", "orders"),
        *("--group", "g", "--from-beginning", "--max-messages", str(COUNT)),
        *("--command-config", str(config)),
    )
    assert sorted(printed.split("\n")[:-1]) == sorted(f"value {n}" for n in range(COUNT))
    assert sum(cluster.committed("g").values()) == COUNT
    joined = "JoinGroup" if protocol == "classic" else "ConsumerGroupHeartbeat"
    assert cluster.requests(joined)
    assert cluster.malformed == []


def test_the_java_admin_makes_and_describes_topics(fake_cluster: Start) -> None:
    cluster = fake_cluster(brokers=3)
    where = ("--bootstrap-server", cluster.bootstrap_servers)
    tool = "org.apache.kafka.tools.TopicCommand"
    run_java(tool, *where, "--create", "--topic", "orders", "--partitions", "2")
    printed = run_java(tool, *where, "--describe", "--topic", "orders")
    assert "PartitionCount: 2" in printed
    assert "Leader: 1" in printed
    run_java(tool, *where, "--delete", "--topic", "orders")
    assert "orders" not in run_java(tool, *where, "--list")
    assert cluster.malformed == []

"""A stream that dies at any moment writes every row once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from kclient import Admin, TopicPartition

from .test_write import records

KILLS = int(os.environ.get("KCLIENT_SPARK_KILLS", "2"))
ROWS = 200
HERE = Path(__file__).parent


def write(servers: str, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=number % 2)
    producer.flush(30)


def committed(servers: str, topic: str, count: int) -> Counter[int]:
    found = records(servers, topic, count, **{"isolation.level": "read_committed"})
    return Counter(int(record.value()) for record in found)


def run(
    spark: SparkSession, servers: str, source: str, sink: str, folder: Path, **options: str
) -> None:
    reader = spark.readStream.format("kclient").option("kafka.bootstrap.servers", servers)
    reader = reader.option("subscribe", source).option("startingOffsets", "earliest")
    frame = (
        reader.option("maxOffsetsPerTrigger", "50")
        .option("minPartitions", "5")
        .load()
        .select("value")
    )
    writer = frame.writeStream.format("kclient").option("kafka.bootstrap.servers", servers)
    writer = writer.option("topic", sink).option("kclient.delivery", "exactly-once")
    for name, value in options.items():
        writer = writer.option(name, value)
    query = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()


def test_a_stream_and_its_restart(
    spark: SparkSession, servers: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, sink = new_topic(2), new_topic(1)  # fewer partitions than there are tasks
    write(servers, source, range(120))
    run(spark, servers, source, sink, tmp_path)
    write(servers, source, range(120, 150))
    run(spark, servers, source, sink, tmp_path)
    assert committed(servers, sink, 150) == Counter(range(150))


def test_a_batch_committed_before_spark_knew_is_not_written_again(
    spark: SparkSession, servers: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """As after a death between our commit and Spark's note of it."""
    source, sink = new_topic(2), new_topic(2)
    write(servers, source, range(100))
    run(spark, servers, source, sink, tmp_path)
    for note in (tmp_path / "commits").iterdir():
        if note.name.strip(".").split(".")[0] == "1":
            note.unlink()
    run(spark, servers, source, sink, tmp_path)
    assert committed(servers, sink, 100) == Counter(range(100))


def test_a_checkpoint_from_before_is_refused(
    spark: SparkSession,
    servers: str,
    admin: Admin,
    new_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    source, sink = new_topic(2), new_topic(2)
    write(servers, source, range(100))
    name = f"id-{uuid.uuid4().hex[:8]}"
    run(spark, servers, source, sink, tmp_path / "a", **{"kclient.transactionalId": name})
    marker = admin.list_group_offsets(f"{name}-0")[TopicPartition(sink, 0)]
    assert marker.offset == 1
    with pytest.raises(Exception, match="older than what was written"):
        run(spark, servers, source, sink, tmp_path / "b", **{"kclient.transactionalId": name})
    assert committed(servers, sink, 100) == Counter(range(100))


def test_a_topic_column_is_refused(
    spark: SparkSession, servers: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    reader = spark.readStream.format("kclient").option("kafka.bootstrap.servers", servers)
    frame = reader.option("subscribe", new_topic(1)).load().select("value", "topic")
    writer = frame.writeStream.format("kclient").option("kafka.bootstrap.servers", servers)
    writer = writer.option("checkpointLocation", str(tmp_path))
    with pytest.raises(Exception, match="goes to one topic"):
        writer.option("kclient.delivery", "exactly-once").start().awaitTermination(60)


@pytest.mark.timeout(300 + 60 * KILLS)
def test_killed_at_random(servers: str, new_topic: Callable[..., str], tmp_path: Path) -> None:
    """The driver, its Python workers, or all of them die by SIGKILL, again and again."""
    source, sink = new_topic(2), new_topic(3)
    write(servers, source, range(ROWS))
    chance = random.Random(int(os.environ.get("KCLIENT_SPARK_SEED", "7")))
    log = tmp_path / "job.log"
    for _ in range(KILLS):
        with log.open("a") as output:
            job = start(servers, source, sink, tmp_path, output)
            await_batches(job, tmp_path, chance.randint(0, 2))
            time.sleep(chance.uniform(0, 0.8))
            kill(job.pid, chance.choice(["", "java", "pyspark"]))
            if job.poll() is None:
                kill(job.pid, "")
            job.wait()
    with log.open("a") as output:
        job = start(servers, source, sink, tmp_path, output)
        assert job.wait(180) == 0, log.read_text()[-3000:]
    assert committed(servers, sink, ROWS) == Counter(range(ROWS))


def start(
    servers: str, source: str, sink: str, folder: Path, output: IO[str]
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.spark.exactly_once_job"]
    command += [servers, source, sink, str(folder / "checkpoint")]
    return subprocess.Popen(
        command,
        cwd=HERE.parents[1],
        start_new_session=True,  # by which all of its processes are found
        stdout=output,
        stderr=subprocess.STDOUT,
    )


def kill(session: int, what: str) -> None:
    """End the processes of a session whose command has ``what`` in it, without a warning."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().decode()
            if int(fields[3]) == session and what in command:
                os.kill(int(folder.name), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue


def await_batches(job: subprocess.Popen[bytes], folder: Path, more: int) -> None:
    """Wait until the query has begun ``more`` batches beyond those it had, or ended."""
    offsets = folder / "checkpoint" / "offsets"
    before = len(list(offsets.glob("[0-9]*"))) if offsets.exists() else 0
    limit = time.monotonic() + 60
    while time.monotonic() < limit and job.poll() is None:
        now = len(list(offsets.glob("[0-9]*"))) if offsets.exists() else 0
        if now > before + more:
            return
        time.sleep(0.05)

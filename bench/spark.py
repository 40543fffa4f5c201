"""Spark jobs through ``format("kclient")`` and Spark's own Kafka connector, in one Spark.

    python -m bench.spark [--rows 5000000] [--large 1000000] [--rounds 3] [--cores 2]

CPU seconds are those of the JVM and all of its Python workers together; the broker's are not
among them. All ways of a job take turns, after a turn to warm up; shown are medians, and how
ours relate to the connector as it is installed and tuned with larger fetches.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kclient import Admin, NewTopic, Producer
from kclient.testing import LocalKafka
from kclient.testing.spark_connector import connector_jars

PARTITIONS = 4
ROOT = Path(__file__).parents[1]
TUNED = {
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.max.poll.records": "50000",
}
TUNED_WRITE = {"kafka.batch.size": str(256 << 10), "kafka.linger.ms": "10"}
WAYS = ("kclient", "connector", "tuned")


class Cost(NamedTuple):
    """Of one job: CPU seconds of all processes, and wall seconds."""

    cpu: float
    wall: float


class Bench:
    """A Spark, a broker, and topics to read."""

    def __init__(self, spark: SparkSession, servers: str) -> None:
        self.spark = spark
        self.servers = servers
        self.admin = Admin(servers)

    def fill(self, topic: str, rows: int, size: int, batch_size: int) -> None:
        """Write ``rows`` records of ``size`` bytes."""
        self.admin.create_topics([NewTopic(topic, PARTITIONS)])
        with Producer(self.servers, batch_size=batch_size) as producer:
            producer.send_arrow(topic, _tables(rows, size))

    def read(self, way: str, topic: str) -> DataFrame:
        """The topic as a batch."""
        frame: DataFrame = self._options(self.spark.read, way).option("subscribe", topic).load()
        return frame

    def stream(self, way: str, topic: str) -> None:
        """The topic as a stream, to nowhere."""
        reader = self._options(self.spark.readStream, way).option("subscribe", topic)
        folder = tempfile.mkdtemp()
        try:
            frame = reader.option("startingOffsets", "earliest").load()
            query = frame.writeStream.format("noop").option("checkpointLocation", folder)
            query.trigger(availableNow=True).start().awaitTermination()
        finally:
            shutil.rmtree(folder)

    def write(self, way: str, rows: int) -> None:
        """Rows of 100 bytes to a new topic."""
        topic = f"sink-{time.monotonic_ns()}"
        self.admin.create_topics([NewTopic(topic, PARTITIONS)])
        value = f.rpad(f.col("id").cast("string"), 100, "x").cast("binary").alias("value")
        writer = self.spark.range(0, rows, numPartitions=PARTITIONS).select(value).write
        writer = writer.format("kclient" if way == "kclient" else "kafka").mode("append")
        if way == "tuned":
            writer = writer.options(**TUNED_WRITE)
        writer.option("kafka.bootstrap.servers", self.servers).option("topic", topic).save()
        self.admin.delete_topics([topic])

    def _options(self, reader: Any, way: str) -> Any:
        made = reader.format("kclient" if way == "kclient" else "kafka")
        made = made.option("kafka.bootstrap.servers", self.servers)
        return made.options(**TUNED) if way == "tuned" else made

    def jobs(self, rows: int, large: int) -> dict[str, Callable[[str], object]]:
        """What is measured, each as a function of the way."""
        return {
            "100 B, all columns to noop": lambda way: _to_noop(self.read(way, "small")),
            "100 B, count": lambda way: self.read(way, "small").count(),
            "100 B, aggregation": lambda way: _aggregate(self.read(way, "small")),
            "100 B, stream available now": lambda way: self.stream(way, "small"),
            "1 KiB, all columns to noop": lambda way: _to_noop(self.read(way, "large")),
            "1 KiB, aggregation": lambda way: _aggregate(self.read(way, "large")),
            "write rows of 100 B": lambda way: self.write(way, rows * 2 // 5),
        }


def _tables(rows: int, size: int, chunk: int = 50_000) -> Iterator[Any]:
    filler = os.urandom(size)
    for first in range(0, rows, chunk):
        count = min(chunk, rows - first)
        values = [b"%010d" % number + filler[10:] for number in range(first, first + count)]
        yield pa.record_batch({"value": pa.array(values, pa.binary())})


def _to_noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _aggregate(frame: DataFrame) -> object:
    total = f.sum(f.length("value"))
    return frame.groupBy("partition").agg(f.count("*"), total, f.max("offset")).collect()


def measured(work: Callable[[], object], jvm: int) -> Cost:
    """What a job costs."""
    cpu, began = cpu_seconds(jvm), time.monotonic()
    work()
    return Cost(cpu_seconds(jvm) - cpu, time.monotonic() - began)


def cpu_seconds(root: int) -> float:
    """CPU seconds of a process and all that it started, also of those that have ended."""
    parents, ticks = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(folder.name)] = int(fields[1])
        ticks[int(folder.name)] = sum(int(each) for each in fields[11:15])
    return sum(spent for pid, spent in ticks.items() if _descends(pid, root, parents)) / os.sysconf(
        "SC_CLK_TCK"
    )


def _descends(pid: int, root: int, parents: Mapping[int, int]) -> bool:
    while pid and pid != root:
        pid = parents.get(pid, 0)
    return pid == root


def start_spark(cores: int) -> SparkSession:
    """Spark on this machine, with the connector's jar."""
    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.jars", connector_jars())
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def report(found: Mapping[str, Mapping[str, Cost]]) -> None:
    """A table, and bars of CPU seconds."""
    head = f"{'job':30}" + "".join(f"{way + ' CPU s (wall)':>24}" for way in WAYS)
    print(f"{head}{'ours/connector':>18}{'ours/tuned':>16}   (CPU, wall)")
    for job, costs in found.items():
        cells = "".join(f"{costs[way].cpu:14.2f} ({costs[way].wall:6.2f}) " for way in WAYS)
        ours, theirs, tuned = (costs[way] for way in WAYS)
        ratios = (
            f"{ours.cpu / theirs.cpu:10.2f}, {ours.wall / theirs.wall:.2f}"
            f"{ours.cpu / tuned.cpu:10.2f}, {ours.wall / tuned.wall:.2f}"
        )
        print(f"{job:30}{cells}{ratios}")
    longest = max(cost.cpu for costs in found.values() for cost in costs.values())
    for job, costs in found.items():
        print(job)
        for way in WAYS:
            bar = "#" * max(1, round(costs[way].cpu / longest * 60))
            print(f"  {way:10} {bar} {costs[way].cpu:.2f} CPU s")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--large", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument(
        "--batch-size", type=int, default=16 << 10, help="of what is read (default: as Java's)"
    )
    parser.add_argument("--only", default="", help="jobs whose name has this in it")
    parser.add_argument("--json", type=Path, help="also write what was measured to this file")
    given = parser.parse_args(arguments)
    with LocalKafka(heap_mb=1024) as kafka:
        spark = start_spark(given.cores)
        jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
        bench = Bench(spark, kafka.bootstrap_servers)
        bench.fill("small", given.rows, 100, given.batch_size)
        bench.fill("large", given.large, 1024, given.batch_size)
        found: dict[str, dict[str, Cost]] = {}
        for name, job in bench.jobs(given.rows, given.large).items():
            if given.only in name:
                found[name] = _race(job, jvm, given.rounds)
                print(f"{name}: {found[name]}", flush=True)
        bench.admin.close()
        spark.stop()
    report(found)
    if given.json:
        given.json.write_text(json.dumps(found, indent=2))


def _race(job: Callable[[str], object], jvm: int, rounds: int) -> dict[str, Cost]:
    costs: dict[str, list[Cost]] = {way: [] for way in WAYS}
    for turn in range(rounds + 1):
        for way in WAYS:
            cost = measured(lambda way=way: job(way), jvm)  # type: ignore[misc]
            if turn:  # the first one warms up
                costs[way].append(cost)
    return {
        way: Cost(
            statistics.median(each.cpu for each in some),
            statistics.median(each.wall for each in some),
        )
        for way, some in costs.items()
    }


if __name__ == "__main__":
    main()

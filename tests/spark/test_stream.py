"""Streams: restarts, limits, new partitions, lost data, and the connector's own checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kclient import Admin, NewTopic, TopicPartition


def write(servers: str, topic: str, numbers: range, partitions: int = 2) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=number % partitions)
    producer.flush(30)


class Job:
    """A query that appends what it reads to Parquet, with a checkpoint."""

    def __init__(self, spark: SparkSession, servers: str, folder: Path, topic: str) -> None:
        self.spark = spark
        self.servers = servers
        self.folder = folder
        self.options = {"subscribe": topic, "startingOffsets": "earliest"}

    def source(self, form: str = "kclient", **options: str) -> DataFrame:
        reader = self.spark.readStream.format(form)
        reader = reader.option("kafka.bootstrap.servers", self.servers)
        for name, value in {**self.options, **options}.items():
            reader = reader.option(name, value)
        return reader.load()

    def run(self, form: str = "kclient", **options: str) -> StreamingQuery:
        """Read what is available now, and return the query, which has ended."""
        query = (
            self.source(form, **options)
            .selectExpr("cast(value as string) value", "partition", "offset")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .option("path", str(self.folder / "out"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(120)
        finally:
            query.stop()
        return query

    def found(self) -> list[int]:
        """The numbers that were read, sorted, as often as they were."""
        rows = self.spark.read.parquet(str(self.folder / "out")).collect()
        return sorted(int(row.value) for row in rows)


@pytest.fixture
def job(spark: SparkSession, servers: str, tmp_path: Path, new_topic: Callable[..., str]) -> Job:
    topic = new_topic(2)
    write(servers, topic, range(100))
    return Job(spark, servers, tmp_path, topic)


def batches(query: StreamingQuery) -> list[int]:
    """How many rows each micro-batch had, of those that had any."""
    return [row["numInputRows"] for row in query.recentProgress if row["numInputRows"]]


def test_a_restart_loses_and_doubles_nothing(job: Job) -> None:
    topic = job.options["subscribe"]
    assert batches(job.run()) == [100]
    assert batches(job.run()) == []
    write(job.servers, topic, range(100, 150))
    job.run()
    assert job.found() == list(range(150))


def test_a_checkpoint_passes_between_the_connector_and_us(job: Job) -> None:
    topic = job.options["subscribe"]
    job.run("kafka")
    write(job.servers, topic, range(100, 130))
    job.run("kclient")
    write(job.servers, topic, range(130, 170))
    job.run("kafka")
    assert job.found() == list(range(170))


def test_a_limit_makes_more_batches(job: Job) -> None:
    query = job.run(maxOffsetsPerTrigger="30")
    assert batches(query) == [30, 30, 30, 10]
    assert job.found() == list(range(100))
    latest = query.recentProgress[0]["sources"][0]["latestOffset"]
    assert json.loads(latest) == {job.options["subscribe"]: {"0": 50, "1": 50}}


def test_new_partitions_and_topics_are_picked_up(job: Job, admin: Admin) -> None:
    topic = job.options.pop("subscribe")
    job.options["subscribePattern"] = f"{topic}.*"
    job.run()
    admin.create_partitions({topic: 4})
    admin.create_topics([NewTopic(f"{topic}-more", num_partitions=1)])
    write(job.servers, topic, range(100, 160), partitions=4)
    write(job.servers, f"{topic}-more", range(160, 180), partitions=1)
    job.run()
    assert job.found() == list(range(180))


def test_lost_data_is_told_or_passed_over(job: Job, admin: Admin) -> None:
    topic = job.options["subscribe"]
    job.run()
    write(job.servers, topic, range(100, 200))
    admin.delete_records({TopicPartition(topic, 0): 60})
    with pytest.raises(Exception, match="offsets 50 to 59 are deleted") as caught:
        job.run()
    assert "failOnDataLoss" in str(caught.value)
    job.run(failOnDataLoss="false")
    kept = [number for number in range(200) if number % 2 or not 100 <= number < 120]
    assert job.found() == kept


def test_a_topic_made_anew(job: Job, admin: Admin) -> None:
    topic = job.options["subscribe"]
    job.run()
    admin.delete_topics([topic])
    admin.create_topics([NewTopic(topic, num_partitions=2)])
    write(job.servers, topic, range(1000, 1010))
    with pytest.raises(Exception, match="ends at offset 5 now, and 50 was next"):
        job.run()


def test_offsets_are_told_to_a_group(job: Job, admin: Admin) -> None:
    topic = job.options["subscribe"]
    job.run(**{"kclient.commitGroup": f"lag-{topic}"})
    write(job.servers, topic, range(100, 120))
    job.run(**{"kclient.commitGroup": f"lag-{topic}"})
    committed = admin.list_group_offsets(f"lag-{topic}")
    # Spark says so when the next batch begins: what it says is behind, never ahead.
    assert committed
    assert all(0 < each.offset <= 60 for each in committed.values())


def test_a_running_query_sees_what_comes(job: Job) -> None:
    topic = job.options["subscribe"]
    seen: list[Any] = []
    query = (
        job.source()
        .writeStream.foreachBatch(lambda frame, _: seen.extend(frame.collect()))
        .option("checkpointLocation", str(job.folder / "checkpoint"))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    try:
        query.processAllAvailable()
        write(job.servers, topic, range(100, 110))
        query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(int(row.value) for row in seen) == list(range(110))


def test_latest_is_where_a_stream_starts(job: Job) -> None:
    del job.options["startingOffsets"]
    job.run()
    write(job.servers, job.options["subscribe"], range(500, 510))
    job.run()
    assert job.found() == list(range(500, 510))


def test_the_end_is_not_for_streams(job: Job) -> None:
    with pytest.raises(Exception, match="endingOffsets is not for streams"):
        job.run(endingOffsets="latest")

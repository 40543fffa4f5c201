"""Writes in batches, read back by others; and what cannot be written."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kclient import Admin


def records(servers: str, topic: str, count: int, **options: Any) -> list[Any]:
    """``count`` records as librdkafka sees them; fails if there are fewer, or more."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            **options,
        }
    )
    consumer.subscribe([topic])
    found: list[Any] = []
    ends = 0
    try:
        while ends == 0 or len(found) < count:
            message = consumer.poll(20)
            assert message is not None, f"{len(found)} of {count} records came"
            if message.error():
                ends += 1
                if ends > 20:
                    break
            else:
                found.append(message)
                ends = 0
        while (message := consumer.poll(0.2)) is not None:
            if not message.error():
                found.append(message)
    finally:
        consumer.close()
    assert len(found) == count
    return found


def save(frame: DataFrame, form: str, servers: str, **options: str) -> None:
    writer = frame.write.format(form).mode("append").option("kafka.bootstrap.servers", servers)
    for name, value in options.items():
        writer = writer.option(name, value)
    writer.save()


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    numbers = spark.range(0, 200, numPartitions=3)
    return numbers.select(
        f.when(f.col("id") % 5 != 0, f.concat(f.lit("key "), f.col("id"))).alias("key"),
        f.concat(f.lit("value "), f.col("id")).cast("binary").alias("value"),
        f.when(
            f.col("id") % 2 == 0,
            f.array(f.struct(f.lit("n").alias("key"), f.lit(b"1").alias("value"))),
        ).alias("headers"),
        (f.col("id") * 3).alias("ignored"),
    )


def test_the_same_write_by_one_word(
    frame: DataFrame, servers: str, new_topic: Callable[..., str]
) -> None:
    seen = {}
    for form in ("kclient", "kafka"):
        topic = new_topic(4)
        save(frame, form, servers, topic=topic, includeHeaders="true")
        found = records(servers, topic, 200)
        seen[form] = sorted(
            (
                record.value(),
                record.key(),
                tuple(record.headers() or ()),
                record.partition() if record.key() is not None else None,
            )
            for record in found
        )
    assert seen["kclient"] == seen["kafka"]


def test_topic_and_partition_columns(
    frame: DataFrame, servers: str, new_topic: Callable[..., str]
) -> None:
    first, second = new_topic(2), new_topic(2)
    placed = frame.withColumn(
        "topic", f.when(f.col("ignored") % 2 == 0, first).otherwise(second)
    ).withColumn("partition", (f.col("ignored") % 4 / 2).cast("int"))
    save(placed, "kclient", servers)
    for topic, is_even in ((first, True), (second, False)):
        for record in records(servers, topic, 100):
            number = int(record.value().split()[1]) * 3
            assert (number % 2 == 0) is is_even
            assert record.partition() == number % 4 // 2


def test_round_trip(
    spark: SparkSession, frame: DataFrame, servers: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(3)
    save(frame, "kclient", servers, topic=topic, **{"kafka.compression.type": "zstd"})
    back = spark.read.format("kclient").option("kafka.bootstrap.servers", servers)
    found = back.option("subscribe", topic).option("includeHeaders", "true").load()
    written = {(row.key, bytes(row.value), row.headers is None) for row in frame.collect()}
    assert {
        (None if row.key is None else row.key.decode(), bytes(row.value), row.headers is None)
        for row in found.collect()
    } == written


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (["key"], {"topic": "t"}, "no column 'value'"),
        (["id as value"], {"topic": "t"}, "column value is bigint, and must be string or binary"),
        (["'v' as value"], {}, "neither an option topic nor a column 'topic'"),
        (["'v' as value", "1L as partition"], {"topic": "t"}, "partition is bigint"),
        (["'v' as value", "array('x') as headers"], {"topic": "t"}, "headers is array<string>"),
        (["'v' as value"], {"topik": "t"}, "did you mean 'topic'"),
        (["'v' as value"], {"topic": "t", "startingOffsets": "latest"}, "for reading only"),
        (["'v' as value", "string(null) as topic"], {}, "a row has no topic"),
    ],
)
def test_what_cannot_be_written(
    spark: SparkSession, servers: str, columns: list[str], options: dict[str, str], said: str
) -> None:
    frame = spark.range(2).withColumn("key", f.lit("k")).selectExpr(*columns)
    with pytest.raises(Exception, match="kclient.errors") as caught:
        save(frame, "kclient", servers, **options)
    assert said in "\n".join(str(caught.value).splitlines()[:2])


def test_a_missing_topic_and_an_unreachable_broker(
    frame: DataFrame, servers: str, admin: Admin
) -> None:
    soon = {"kafka.delivery.timeout.ms": "3000", "kafka.max.block.ms": "3000"}
    with pytest.raises(Exception, match="kclient.errors") as caught:
        save(frame, "kclient", "127.0.0.1:1", topic="t", **soon)
    assert "127.0.0.1:1" in "\n".join(str(caught.value).splitlines()[:2])


def test_overwriting_is_refused(frame: DataFrame, servers: str) -> None:
    with pytest.raises(Exception, match="only appended to"):
        frame.write.format("kclient").mode("overwrite").option(
            "kafka.bootstrap.servers", servers
        ).option("topic", "t").save()


def test_all_or_nothing(
    spark: SparkSession, frame: DataFrame, servers: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    once = {"topic": topic, "kclient.delivery": "exactly-once"}
    failing = frame.withColumn(
        "value",
        f.when(f.col("ignored") < 597, f.col("value")).otherwise(
            f.raise_error("the last row is bad").cast("binary")
        ),
    )
    # Batches of few rows, so that some of the task that fails were written before.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
    try:
        with pytest.raises(Exception, match="the last row is bad"):
            save(failing, "kclient", servers, **once)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    save(frame, "kclient", servers, **once)
    found = records(servers, topic, 200, **{"isolation.level": "read_committed"})
    assert len({record.value() for record in found}) == 200

"""Batch reads, and the same reads through Spark's own connector."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from kclient import Admin, TopicPartition

BEGAN = (int(time.time()) - 3600) * 1000  # ms; recent, or the broker deletes the records


def times(first: int, second: int) -> str:
    return json.dumps({"TOPIC": {"0": first, "1": second}})


def write(servers: str, topic: str, count: int, *, partitions: int = 2, first: int = 0) -> None:
    """Records with keys, nulls, headers and times, spread over the partitions."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    for number in range(first, first + count):
        producer.produce(
            topic,
            value=None if number % 11 == 10 else b"value %d" % number,
            key=None if number % 7 == 6 else b"key %d" % number,
            partition=number % partitions,
            timestamp=BEGAN + number * 1000,
            headers=[("n", b"%d" % number), ("none", None)] if number % 3 == 0 else [],
        )
    producer.flush(30)


def load(spark: SparkSession, form: str, servers: str, **options: str) -> DataFrame:
    reader = spark.read.format(form).option("kafka.bootstrap.servers", servers)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    found = [row.asDict(recursive=True) for row in frame.collect()]
    return sorted(found, key=lambda row: (row["topic"], row["partition"], row["offset"]))


@pytest.fixture
def topic(servers: str, new_topic: Callable[..., str]) -> str:
    name = new_topic(2)
    write(servers, name, 100)
    return name


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"includeHeaders": "true"},
        {"startingOffsets": '{"TOPIC": {"0": 5, "1": -2}}', "endingOffsets": "latest"},
        {"endingOffsets": '{"TOPIC": {"0": 30, "1": -1}}', "minPartitions": "5"},
        {"startingTimestamp": str(BEGAN + 20_000), "endingTimestamp": str(BEGAN + 60_000)},
        {
            "startingOffsetsByTimestamp": times(BEGAN + 10_000, BEGAN + 30_000),
            "endingOffsetsByTimestamp": times(BEGAN + 80_000, BEGAN * 2),
        },
        {"maxRecordsPerPartition": "7"},
        {"subscribePattern": "TOPI.?C", "subscribe": ""},
        {"assign": '{"TOPIC": [1]}', "subscribe": ""},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
def test_the_same_job_by_one_word(
    spark: SparkSession, servers: str, topic: str, options: dict[str, str]
) -> None:
    given = {name: text.replace("TOPIC", topic) for name, text in options.items()}
    given = {name: text.replace("TOPI.?C", topic[:-1] + ".?") for name, text in given.items()}
    given.setdefault("subscribe", topic)
    given = {name: text for name, text in given.items() if text}
    ours, theirs = (load(spark, form, servers, **given) for form in ("kclient", "kafka"))
    assert ours.schema == theirs.schema
    assert rows(ours) == rows(theirs)
    assert ours.count() > 0


def test_ranges_become_tasks(spark: SparkSession, servers: str, topic: str) -> None:
    assert load(spark, "kclient", servers, subscribe=topic).rdd.getNumPartitions() == 2
    cut = load(spark, "kclient", servers, subscribe=topic, maxRecordsPerPartition="10")
    assert cut.rdd.getNumPartitions() == 10
    cut = load(spark, "kclient", servers, subscribe=topic, minPartitions="6")
    assert cut.rdd.getNumPartitions() == 6


def test_fewer_columns(spark: SparkSession, servers: str, topic: str) -> None:
    reader = spark.read.format("kclient").schema("value binary, offset bigint")
    frame = reader.option("kafka.bootstrap.servers", servers).option("subscribe", topic).load()
    assert frame.columns == ["value", "offset"]
    assert {row.offset for row in frame.collect()} == set(range(50))


def test_sql_over_records(spark: SparkSession, servers: str, topic: str) -> None:
    load(spark, "kclient", servers, subscribe=topic).createOrReplaceTempView("records")
    found = spark.sql(
        "select partition, count(*) n, count(value) v, max(offset) top from records "
        "group by partition order by partition"
    ).collect()
    assert [(row.n, row.top) for row in found] == [(50, 49), (50, 49)]
    assert sum(row.v for row in found) == sum(1 for number in range(100) if number % 11 != 10)


def test_nothing_to_read(spark: SparkSession, servers: str, new_topic: Callable[..., str]) -> None:
    assert load(spark, "kclient", servers, subscribe=new_topic(3)).count() == 0
    assert load(spark, "kclient", servers, subscribePattern="no-such-.*").count() == 0


def test_deleted_records(spark: SparkSession, servers: str, topic: str, admin: Admin) -> None:
    admin.delete_records({TopicPartition(topic, 0): 20})
    assert load(spark, "kclient", servers, subscribe=topic).count() == 80
    start = f'{{"{topic}": {{"0": 3, "1": 0}}}}'
    late = load(spark, "kclient", servers, subscribe=topic, startingOffsets=start)
    with pytest.raises(Exception, match="offsets 3 to 19 are deleted") as caught:
        late.count()
    assert "failOnDataLoss" in str(caught.value)
    lenient = load(
        spark, "kclient", servers, subscribe=topic, startingOffsets=start, failOnDataLoss="false"
    )
    assert lenient.count() == 80


def test_read_committed_unless_told_otherwise(
    spark: SparkSession, servers: str, topic: str
) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": topic})
    producer.init_transactions(30)
    for commit in (False, True):
        producer.begin_transaction()
        producer.produce(topic, b"committed" if commit else b"aborted", partition=0)
        producer.flush(30)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    committed = load(spark, "kclient", servers, subscribe=topic)
    assert committed.count() == 101
    options = {"subscribe": topic, "kafka.isolation.level": "read_uncommitted"}
    assert load(spark, "kclient", servers, **options).count() == 102

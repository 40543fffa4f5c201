"""What is wrong is said at the top of Spark's exception, on the driver and the executors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession


def top(error: BaseException) -> str:
    """What a user sees first: Spark's own words, and one line of ours."""
    return "\n".join(str(error).strip().splitlines()[:2])


def load(spark: SparkSession, **options: str) -> Any:
    reader = spark.read.format("kclient")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOfsets": "earliest"}, "did you mean 'startingOffsets'"),
        ({"kafka.bootstrap.server": "x"}, "did you mean 'bootstrap.servers'"),
        ({"startingOffsets": '{"t": {'}, "startingOffsets is malformed"),
        ({"startingOffsets": '{"TOPIC": {"0": 1}}'}, "TOPIC[1] is missing"),
        ({"startingOffsets": '{"TOPIC": {"0": 1, "1": 1, "9": 1}}'}, "TOPIC[9] is not read"),
        ({"subscribe": "nowhere-at-all"}, "nowhere-at-all"),
        ({"assign": '{"TOPIC": [7]}', "subscribe": ""}, "TOPIC[7], which does not exist"),
        ({"startingTimestamp": "99999999999999"}, "startingOffsetsByTimestampStrategy"),
        ({"startingOffsets": '{"TOPIC": {"0": 5, "1": 5}}'}, "from offset 5 to 0"),
    ],
)
def test_on_the_driver(
    spark: SparkSession,
    servers: str,
    new_topic: Callable[..., str],
    options: dict[str, str],
    said: str,
) -> None:
    topic = new_topic(2)
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, **options}
    given = {name: text.replace("TOPIC", topic) for name, text in given.items() if text}
    with pytest.raises(Exception, match="kclient.errors") as caught:
        load(spark, **given).count()
    assert said.replace("TOPIC", topic) in top(caught.value)


def test_a_wrong_schema(spark: SparkSession, servers: str, new_topic: Callable[..., str]) -> None:
    for schema, said in (
        ("value string", "the column value is binary, not string"),
        ("colour string", "no column 'colour'"),
    ):
        reader = spark.read.format("kclient").schema(schema)
        reader = reader.option("kafka.bootstrap.servers", servers).option("subscribe", new_topic(1))
        with pytest.raises(Exception, match="kclient.errors") as caught:
            reader.load().count()
        assert said in top(caught.value)


def test_no_broker_for_the_driver(spark: SparkSession) -> None:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}
    with pytest.raises(Exception, match="kclient.errors") as caught:
        load(spark, **options, **{"kafka.default.api.timeout.ms": "1500"}).count()
    assert "127.0.0.1:1" in top(caught.value)


def test_no_broker_for_the_executors(
    spark: SparkSession, servers: str, new_topic: Callable[..., str]
) -> None:
    """Planned against one address, read from another, as behind a firewall."""
    from pyspark.sql.types import StructType

    from kclient.spark.columns import read_schema
    from kclient.spark.offsets import OffsetRange
    from kclient.spark.source import KafkaSource
    from kclient.spark.tasks import RangePartition
    from kclient.types import TopicPartition

    class Unreachable(KafkaSource):
        @classmethod
        def name(cls) -> str:
            return "unreachable"

        def reader(self, schema: StructType) -> Any:
            made = super().reader(schema)
            made.partitions = lambda: [  # type: ignore[method-assign]
                RangePartition(OffsetRange(TopicPartition("t", 0), 0, 5))
            ]
            return made

    spark.dataSource.register(Unreachable)
    reader = spark.read.format("unreachable").schema(read_schema(include_headers=False))
    reader = reader.option("kafka.bootstrap.servers", "127.0.0.1:1").option("subscribe", "t")
    frame = reader.option("kafkaConsumer.pollTimeoutMs", "1500").load()
    with pytest.raises(Exception, match="kclient.errors") as caught:
        frame.count()
    assert "127.0.0.1:1" in str(caught.value)


def test_no_secret_is_shown(spark: SparkSession, servers: str) -> None:
    options = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "subscribe": "t",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.username": "user",
        "kafka.sasl.password": "s3cret",
        "kafka.default.api.timeout.ms": "1000",
    }
    with pytest.raises(Exception, match="kclient.errors") as caught:
        load(spark, **options).count()
    assert "s3cret" not in str(caught.value)

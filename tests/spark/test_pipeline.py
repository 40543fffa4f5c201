"""The example pipeline on real orders: parsed, deduplicated, added up, bad ones set aside."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from kclient.errors import ConfigError
from kclient.spark.pipeline import Pipeline, read_pipeline, run
from kclient.spark.pipeline.spec import Sink, Transform

from .test_write import records

EXAMPLE = Path(__file__).parents[2] / "examples" / "revenue.toml"


@pytest.fixture
def example(servers: str, new_topic: Callable[..., str], tmp_path: Path) -> Pipeline:
    read = read_pipeline(EXAMPLE)
    return replace(
        read,
        checkpoint=str(tmp_path / "checkpoint"),
        metrics=str(tmp_path / "metrics.json"),
        source=replace(read.source, topics=[new_topic(2)], bootstrap_servers=servers),
        dead_letter=new_topic(1),
        trigger="available-now",
        sinks=[
            replace(read.sinks[0], topic=new_topic(2)),
            replace(read.sinks[1], path=str(tmp_path / "parquet")),
        ],
    )


def order(number: int, product: str, minute: int) -> bytes:
    at = f"2026-01-01T00:{minute:02}:30Z"
    return json.dumps({"id": str(number), "product": product, "cents": 10, "at": at}).encode()


def send(servers: str, topic: str, values: list[bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number, value in enumerate(values):
        producer.produce(topic, value, key=b"%d" % number)
    producer.flush(30)


def test_revenue(spark: SparkSession, servers: str, example: Pipeline) -> None:
    orders: list[bytes | None] = [
        order(number, ("tea", "mate")[number % 2], number % 3) for number in range(60)
    ]
    doubled = orders[:20]
    late = [order(1000, "tea", 30)]  # closes the windows before it
    send(servers, example.source.topics[0], [*orders, *doubled, b"{not json", None, *late])
    lines: list[str] = []
    found = run(example, spark, say=lines.append)

    revenue = [
        json.loads(each.value()) for each in records(servers, str(example.sinks[0].topic), 6)
    ]
    assert {(row["minute"][14:16], row["product"]): row["cents"] for row in revenue} == {
        (minute, product): 100 for minute in ("00", "01", "02") for product in ("tea", "mate")
    }
    assert sum(row["orders"] for row in revenue) == 60
    stored = spark.read.parquet(str(example.sinks[1].path)).collect()
    assert len(stored) == 6

    dead = records(servers, str(example.dead_letter), 2)
    reasons = {each.value(): dict(each.headers())["reason"].decode() for each in dead}
    assert reasons[None] == "the value is null"
    assert reasons[b"{not json"].startswith("not JSON of the schema")

    told = json.loads(Path(str(example.metrics)).read_text())
    assert told == found
    assert found["sinks"]["dead-letter"]["rows_in"] == 83
    assert any(line.startswith("kafka-") and "lag" in line for line in lines)
    assert "rows/s" in lines[-1]


def test_a_function_instead_of_sql(
    spark: SparkSession, servers: str, example: Pipeline, tmp_path: Path
) -> None:
    send(servers, example.source.topics[0], [order(number, "tea", 0) for number in range(5)])
    plain = replace(
        example,
        transform=Transform(python=f"{__name__}:only_ids"),
        sinks=[Sink(type="parquet", path=str(tmp_path / "ids"))],
        dead_letter=None,
    )
    run(plain, spark)
    rows = spark.read.parquet(str(tmp_path / "ids"))
    assert rows.columns == ["id"]
    assert {row.id for row in rows.collect()} == {str(number) for number in range(5)}
    with pytest.raises(ConfigError, match="no 'module:function'"):
        run(replace(plain, transform=Transform(python="nowhere:at_all")), spark)


def only_ids(rows: DataFrame) -> DataFrame:
    return rows.select("id")

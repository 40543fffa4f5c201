"""A pipeline at work: a streaming query for each sink, and one for what does not fit."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import kclient.spark
from kclient.errors import ConfigError
from kclient.spark.pipeline.progress import BatchProgress, chart, metrics, read_progress
from kclient.spark.pipeline.spec import Pipeline, Sink

_CORRUPT = "_not_of_the_schema"
_DEAD = "dead-letter"
_LOOK_SECONDS = 0.5


def run(
    pipeline: Pipeline,
    spark: SparkSession,
    *,
    say: Callable[[str], object] = lambda line: None,
) -> dict[str, Any]:
    """Run a pipeline until its queries end, which with another trigger they do not.

    ``say`` gets a line for each batch, and a chart at the end. Returns the metrics, which
    are also in the pipeline's ``metrics`` file. Raises what ended a query, having stopped
    the others; ConfigError for a function that cannot be found.
    """
    kclient.spark.register(spark)
    queries = start(pipeline, spark)
    seen: dict[tuple[str, int], BatchProgress] = {}
    try:
        while any(query.isActive for query in queries.values()):
            time.sleep(_LOOK_SECONDS)
            _look(queries, seen, say)
            for query in queries.values():
                if not query.isActive:
                    query.awaitTermination()  # which raises what ended it
    finally:
        for query in queries.values():
            query.stop()
        _look(queries, seen, say)
        found = metrics(pipeline.name, list(seen.values()))
        if pipeline.metrics is not None:
            Path(pipeline.metrics).write_text(json.dumps(found, indent=2))
    if seen:
        say(chart(list(seen.values())))
    return found


def start(pipeline: Pipeline, spark: SparkSession) -> dict[str, StreamingQuery]:
    """Start the queries, and return them by the names of their sinks."""
    good, bad = _parsed(pipeline, _read(pipeline, spark))
    rows = _transformed(pipeline, good, spark)
    queries = {sink.name: _started(pipeline, sink, rows) for sink in pipeline.sinks}
    if bad is not None:
        dead = Sink(type="kafka", topic=pipeline.dead_letter)
        writer = _to_kafka(pipeline, dead, bad)
        queries[_DEAD] = _start(pipeline, _DEAD, writer)
    return queries


def _look(
    queries: Mapping[str, StreamingQuery],
    seen: dict[tuple[str, int], BatchProgress],
    say: Callable[[str], object],
) -> None:
    """Tell of batches that have ended since the last look."""
    for name, query in queries.items():
        for event in query.recentProgress:
            batch = read_progress(name, json.loads(event.json))
            if batch.rows_in and (name, batch.batch_id) not in seen:
                seen[name, batch.batch_id] = batch
                say(batch.line)


# --- rows ---


def _read(pipeline: Pipeline, spark: SparkSession) -> DataFrame:
    source = pipeline.source
    reader = spark.readStream.format("kclient").option("subscribe", ",".join(source.topics))
    reader = reader.option("kafka.bootstrap.servers", source.bootstrap_servers)
    return reader.option("startingOffsets", source.starting).options(**source.options).load()


def _parsed(pipeline: Pipeline, records: DataFrame) -> tuple[DataFrame, DataFrame | None]:
    """Rows of the schema, and records that are none, as they go to the dead-letter topic."""
    if pipeline.fields is None:
        return records, None
    schema = f"{pipeline.fields}, {_CORRUPT} string"
    options = {"columnNameOfCorruptRecord": _CORRUPT}
    parsed = f.from_json(f.col("value").cast("string"), schema, options)
    found = records.withColumn("parsed", parsed)
    is_bad = f.col("value").isNull() | f.col(f"parsed.{_CORRUPT}").isNotNull()
    good = found.where(~is_bad).select("parsed.*").drop(_CORRUPT)
    if pipeline.dead_letter is None:
        return good, None
    reason = f.when(f.col("value").isNull(), "the value is null").otherwise(
        f"not JSON of the schema {pipeline.fields}"
    )
    place = {name: f.col(name).cast("string") for name in ("topic", "partition", "offset")}
    headers = [_header(name, text) for name, text in {"reason": reason, **place}.items()]
    return good, found.where(is_bad).select("key", "value", f.array(*headers).alias("headers"))


def _header(name: str, text: Any) -> Any:
    return f.struct(f.lit(name).alias("key"), text.cast("binary").alias("value"))


def _transformed(pipeline: Pipeline, rows: DataFrame, spark: SparkSession) -> DataFrame:
    transform = pipeline.transform
    if transform.watermark is not None:
        rows = rows.withWatermark(transform.watermark.column, transform.watermark.delay)
    if transform.deduplicate:
        rows = rows.dropDuplicatesWithinWatermark(transform.deduplicate)
    if transform.sql is not None:
        rows.createOrReplaceTempView("input")
        return spark.sql(transform.sql)
    if transform.python is not None:
        return _function(transform.python)(rows)
    return rows


def _function(name: str) -> Callable[[DataFrame], DataFrame]:
    module, _, attribute = name.partition(":")
    try:
        found: Callable[[DataFrame], DataFrame] = getattr(
            importlib.import_module(module), attribute
        )
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"transform.python {name!r} is no 'module:function': {error}") from error
    return found


# --- sinks ---


def _started(pipeline: Pipeline, sink: Sink, rows: DataFrame) -> StreamingQuery:
    if sink.type == "kafka":
        key = [f.col(sink.key).cast("string").alias("key")] if sink.key else []
        value = f.to_json(f.struct(*rows.columns)).alias("value")
        writer = _to_kafka(pipeline, sink, rows.select(*key, value))
    else:
        writer = rows.writeStream.format(sink.type).options(**sink.options)
        if sink.path is not None:
            writer = writer.option("path", sink.path)
    return _start(pipeline, sink.name, writer.outputMode(sink.output_mode))


def _to_kafka(pipeline: Pipeline, sink: Sink, rows: DataFrame) -> DataStreamWriter:
    servers = sink.bootstrap_servers or pipeline.source.bootstrap_servers
    writer = rows.writeStream.format("kclient").option("kafka.bootstrap.servers", servers)
    writer = writer.option("topic", str(sink.topic)).option("kclient.delivery", sink.delivery)
    return writer.options(**sink.options)


def _start(pipeline: Pipeline, name: str, writer: DataStreamWriter) -> StreamingQuery:
    writer = writer.option("checkpointLocation", str(Path(pipeline.checkpoint, name)))
    if pipeline.trigger == "available-now":
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=pipeline.trigger)
    return writer.queryName(f"{pipeline.name}: {name}").start()

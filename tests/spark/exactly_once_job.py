"""A query in a process of its own, to be killed: from one topic to another, exactly once."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

import kclient.spark


def main(servers: str, source: str, sink: str, checkpoint: str) -> None:
    os.environ["PYTHONPATH"] = os.getcwd()  # noqa: PTH109
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    kclient.spark.register(spark)
    reader = spark.readStream.format("kclient").option("kafka.bootstrap.servers", servers)
    reader = reader.option("subscribe", source).option("startingOffsets", "earliest")
    frame = reader.option("maxOffsetsPerTrigger", "20").load().select("value")
    writer = frame.writeStream.format("kclient").option("kafka.bootstrap.servers", servers)
    writer = writer.option("topic", sink).option("kclient.delivery", "exactly-once")
    writer.option("checkpointLocation", checkpoint).trigger(
        availableNow=True
    ).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

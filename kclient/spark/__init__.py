"""Kafka for Spark 4, without a connector jar: ``format("kclient")``.

::

    import kclient.spark
    kclient.spark.register(spark)
    spark.read.format("kclient").option("kafka.bootstrap.servers", "localhost:9092")

The options are those of Spark's own Kafka connector: moving a job is a change of one word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Let ``spark`` know ``format("kclient")``.

    Not needed where kclient is installed by pip on the driver: Spark finds it by itself.
    """
    from kclient.spark.source import KafkaSource

    spark.dataSource.register(KafkaSource)

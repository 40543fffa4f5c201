"""Spark's own Kafka connector, fetched once: what ``kclient.spark`` is compared with."""

from __future__ import annotations

from kclient.testing.jars import fetch_artifacts

VERSION = "4.2.0"
# By name, each without what it needs: the repositories in Spark's own pom are not all public.
ARTIFACTS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)


def connector_jars() -> str:
    """The jars for ``spark.jars``, with commas. Raises as ``kafka_libs``."""
    folder = fetch_artifacts(f"spark-kafka-{VERSION}", ARTIFACTS, alone=True)
    return ",".join(str(jar) for jar in sorted(folder.glob("*.jar")))

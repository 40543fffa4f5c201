"""One Spark for the whole suite, beside Spark's own Kafka connector, and one broker."""

from __future__ import annotations

import os
import sys
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pip install 'kclient[spark]'")

from pyspark.sql import SparkSession

from kclient import Admin, NewTopic
from kclient.testing import LocalKafka
from kclient.testing.spark_connector import connector_jars

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            # Py4J leaves its sockets to the garbage collector, as does Spark's worker daemon.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(
                pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
            )
            item.add_marker(pytest.mark.filterwarnings("ignore:::pyspark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark on two threads of this machine; nothing of it listens beyond loopback."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = (
            SparkSession.builder.master("local[2]")
            .appName("kclient-tests")
            .config("spark.jars", connector_jars())
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.memory", "1g")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.streaming.stopTimeout", "30s")
            .getOrCreate()
        )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def servers(local_kafka: LocalKafka) -> str:
    return local_kafka.bootstrap_servers


@pytest.fixture(scope="session")
def admin(servers: str) -> Iterator[Admin]:
    with Admin(servers) as made:
        yield made


@pytest.fixture
def new_topic(admin: Admin) -> Callable[..., str]:
    """Makes a topic with some partitions."""

    def make(partitions: int = 2, **configs: str) -> str:
        name = f"spark-{uuid.uuid4().hex[:8]}"
        admin.create_topics([NewTopic(name, num_partitions=partitions, configs=configs)])
        return name

    return make

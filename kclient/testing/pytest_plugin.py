"""Fixtures for users' own tests: ``local_kafka``, ``local_kafka_factory``, ``fake_cluster``.

Loaded by every pytest run where kclient is installed, so nothing is imported or started
before a test asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kclient.testing.fake import FakeCluster
    from kclient.testing.local_kafka import LocalKafka

_kept_logs = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--kafka-version``, and ``kafka_version`` for the ini file."""
    about = "the Apache Kafka that the local_kafka fixture starts (default: 4.3.1)"
    parser.addini("kafka_version", about, default="")
    parser.getgroup("kclient").addoption("--kafka-version", metavar="VERSION", help=about)


@pytest.fixture(scope="session")
def local_kafka(
    pytestconfig: pytest.Config, local_kafka_factory: Callable[..., LocalKafka]
) -> LocalKafka:
    """A running Kafka of one broker, started by the first test that wants it."""
    version = pytestconfig.getoption("--kafka-version") or pytestconfig.getini("kafka_version")
    return local_kafka_factory(**({"version": version} if version else {}))


@pytest.fixture(scope="session")
def local_kafka_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., LocalKafka]]:
    """Start clusters of other shapes; takes LocalKafka's arguments, returns it running.

    All end with the session, or sooner by their ``close()``. Logs stay if a test failed.
    """
    from kclient.testing.local_kafka import LocalKafka

    with ExitStack() as stack:

        def start(*args: Any, **options: Any) -> LocalKafka:
            kafka = LocalKafka(*args, **options)
            stack.callback(_close, request.session, kafka)
            return kafka.open()

        yield start


@pytest.fixture
def fake_cluster() -> Iterator[Callable[..., FakeCluster]]:
    """Start fake clusters; takes FakeCluster's arguments, returns it running.

    All end with the test, which fails if something went wrong inside of them.
    """
    from kclient.testing.fake import FakeCluster

    with ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(FakeCluster(*args, **options))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say where the logs of the brokers are, if any test failed."""
    for line in config.stash.get(_kept_logs, []):
        terminalreporter.write_line(line)


def _close(session: pytest.Session, kafka: LocalKafka) -> None:
    if not kafka.is_open:
        return
    failed = session.testsfailed > 0
    if failed:
        line = f"Kafka {kafka.version}: tests failed, the brokers' logs are in {kafka.log_dir}"
        session.config.stash.setdefault(_kept_logs, []).append(line)
    kafka.close(keep_logs=failed)

"""One broker, and one cluster of three, for all tests of Admin."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kclient import Admin
from kclient.testing import LocalKafka

Factory = Callable[..., LocalKafka]


@pytest.fixture(scope="session")
def solo(local_kafka_factory: Factory) -> LocalKafka:
    """One broker."""
    return local_kafka_factory()


@pytest.fixture(scope="session")
def trio(local_kafka_factory: Factory) -> LocalKafka:
    """Three brokers."""
    return local_kafka_factory(brokers=3)


@pytest.fixture
def admin(solo: LocalKafka) -> Iterator[Admin]:
    """An Admin of the one broker."""
    with Admin(solo.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def admin3(trio: LocalKafka) -> Iterator[Admin]:
    """An Admin of the three."""
    with Admin(trio.bootstrap_servers) as admin:
        yield admin

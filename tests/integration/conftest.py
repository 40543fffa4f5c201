from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from kclient.testing import LocalKafka

from . import lanes
from .logins import Secured, start_secured

_lane = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def bootstrap_servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """The cluster under test: ``$KCLIENT_TEST_BOOTSTRAP``, else a container, else a local one."""
    stash = request.config.stash
    if given := os.environ.get("KCLIENT_TEST_BOOTSTRAP"):
        stash[_lane] = f"the cluster of KCLIENT_TEST_BOOTSTRAP, {given}"
        yield given
    elif reason := lanes.no_container():
        kafka = request.getfixturevalue("local_kafka")
        stash[_lane] = f"LocalKafka {kafka.version} ({reason})"
        yield kafka.bootstrap_servers
    else:
        with lanes.container() as (address, image):
            stash[_lane] = f"a container of {image} on {address}"
            yield address


@pytest.fixture(scope="session")
def secured(
    tmp_path_factory: pytest.TempPathFactory, local_kafka_factory: Callable[..., LocalKafka]
) -> Secured:
    """A broker with a port for every way to log in."""
    return start_secured(tmp_path_factory.mktemp("secured"), local_kafka_factory)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if lane := config.stash.get(_lane, ""):
        terminalreporter.write_line(f"integration tests run against: {lane}")

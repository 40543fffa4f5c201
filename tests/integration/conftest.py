from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from . import lanes

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


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if lane := config.stash.get(_lane, ""):
        terminalreporter.write_line(f"integration tests run against: {lane}")

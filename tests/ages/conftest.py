from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kclient.testing import LocalKafka
from kclient.testing.releases import RELEASES

from . import table
from .abilities import ABILITIES
from .age import Age

DEFAULT = ("0.8.0", "0.9.0.1", "0.10.2.2", "2.0.1", "4.3.1")
"""The oldest, the one that never answers ApiVersions, one of each format, the newest."""
_seen = pytest.StashKey[dict[str, dict[str, bool]]]()


def _ages() -> Iterator[Any]:
    for release in RELEASES:
        marks = () if release.version in DEFAULT else pytest.mark.every_kafka
        yield pytest.param(release.version, id=release.version, marks=marks)


@pytest.fixture(params=_ages())
def age(
    request: pytest.FixtureRequest, local_kafka_factory: Callable[..., LocalKafka]
) -> Iterator[Age]:
    """A broker as it is out of the box."""
    kafka = local_kafka_factory(version=request.param)
    yield Age(kafka.bootstrap_servers, request.param)
    kafka.close(keep_logs=request.session.testsfailed > 0)


@pytest.fixture
def row(request: pytest.FixtureRequest, age: Age) -> dict[str, bool]:
    """What was seen of this Kafka, for the table."""
    return request.config.stash.setdefault(_seen, {}).setdefault(age.version, {})


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write the table, if everything was tried and went as expected."""
    path = os.environ.get("KCLIENT_TABLE")
    rows = session.config.stash.get(_seen, {})
    versions = [release.version for release in RELEASES]
    titles = [ability.title for ability in ABILITIES]
    if path and not session.testsfailed and table.is_whole(rows, versions, titles):
        table.rewrite(Path(path), rows)

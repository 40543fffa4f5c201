"""Kafka for tests: ``LocalKafka`` is a real one, ``FakeCluster`` one with scripted faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kclient.testing.errors import FetchFailed, MissingTool, StartFailed

if TYPE_CHECKING:
    from kclient.testing.fake import FakeCluster
    from kclient.testing.local_kafka import LocalKafka

__all__ = ["FakeCluster", "FetchFailed", "LocalKafka", "MissingTool", "StartFailed"]


def __getattr__(name: str) -> Any:
    # Late, because the pytest plugin brings this package into every test run of every user.
    if name == "LocalKafka":
        from kclient.testing.local_kafka import LocalKafka

        return LocalKafka
    if name == "FakeCluster":
        from kclient.testing.fake import FakeCluster

        return FakeCluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

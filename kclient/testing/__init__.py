"""A real Apache Kafka for tests: ``LocalKafka``, and the pytest fixtures made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kclient.testing.errors import FetchFailed, MissingTool, StartFailed

if TYPE_CHECKING:
    from kclient.testing.local_kafka import LocalKafka

__all__ = ["FetchFailed", "LocalKafka", "MissingTool", "StartFailed"]


def __getattr__(name: str) -> Any:
    # Late, because the pytest plugin brings this package into every test run of every user.
    if name == "LocalKafka":
        from kclient.testing.local_kafka import LocalKafka

        return LocalKafka
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

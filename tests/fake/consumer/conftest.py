from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kclient import Consumer
from kclient.testing import FakeCluster

from .steps import consumer_of

Make = Callable[..., Consumer]


@pytest.fixture
def cluster(fake_cluster: Callable[..., FakeCluster]) -> FakeCluster:
    return fake_cluster(brokers=3, topics={"orders": 4}, racks={1: "a", 2: "b", 3: "c"})


@pytest.fixture
def consume() -> Iterator[Make]:
    """Make consumers that end with the test."""
    with ExitStack() as stack:

        def make(cluster: FakeCluster, **options: Any) -> Consumer:
            consumer = consumer_of(cluster, **options)
            stack.callback(consumer.close, 2.0)
            return consumer

        yield make

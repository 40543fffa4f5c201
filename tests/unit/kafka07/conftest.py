from __future__ import annotations

from collections.abc import Iterator

import pytest

from kclient.kafka07 import Client

from .memory_broker import MemoryBroker


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    with MemoryBroker() as running:
        yield running


@pytest.fixture
def client(broker: MemoryBroker) -> Iterator[Client]:
    with Client("127.0.0.1", broker.port, timeout=5) as connected:
        yield connected

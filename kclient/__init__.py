"""kclient: a synchronous Apache Kafka client that speaks the wire protocol itself."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kclient.types import (
    GroupMetadata,
    OffsetAndMetadata,
    ProducerRecord,
    Record,
    RecordMetadata,
    TimestampType,
    TopicPartition,
)
from kclient.version import __version__

if TYPE_CHECKING:
    from kclient.consumer import Consumer
    from kclient.producer import Producer

__all__ = [
    "Consumer",
    "GroupMetadata",
    "OffsetAndMetadata",
    "Producer",
    "ProducerRecord",
    "Record",
    "RecordMetadata",
    "TimestampType",
    "TopicPartition",
    "__version__",
]

# Imported when first asked for: a script that only produces should not pay for the rest.
_LAZY = {"Consumer": "kclient.consumer", "Producer": "kclient.producer"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'kclient' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)

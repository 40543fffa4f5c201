"""kclient: a synchronous Apache Kafka client that speaks the wire protocol itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kclient.types import ProducerRecord, Record, RecordMetadata, TimestampType, TopicPartition

if TYPE_CHECKING:
    from kclient.admin import Admin
    from kclient.operations.cluster import BrokerDescription, ClusterDescription, VersionRange
    from kclient.operations.configs import (
        ConfigChange,
        ConfigEntry,
        ConfigResource,
        ConfigSynonym,
    )
    from kclient.operations.records import ListedOffset
    from kclient.operations.replicas import Reassignment
    from kclient.operations.topic_views import (
        PartitionDescription,
        TopicDescription,
        TopicListing,
    )
    from kclient.operations.topics import CreatedTopic, NewPartitions, NewTopic

__all__ = [
    "Admin",
    "BrokerDescription",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSynonym",
    "CreatedTopic",
    "ListedOffset",
    "NewPartitions",
    "NewTopic",
    "PartitionDescription",
    "ProducerRecord",
    "Reassignment",
    "Record",
    "RecordMetadata",
    "TimestampType",
    "TopicDescription",
    "TopicListing",
    "TopicPartition",
    "VersionRange",
]

_OPERATIONS = "kclient.operations."
_LATE = {
    "Admin": "kclient.admin",
    **dict.fromkeys(
        ("BrokerDescription", "ClusterDescription", "VersionRange"), _OPERATIONS + "cluster"
    ),
    **dict.fromkeys(
        ("ConfigChange", "ConfigEntry", "ConfigResource", "ConfigSynonym"), _OPERATIONS + "configs"
    ),
    "ListedOffset": _OPERATIONS + "records",
    "Reassignment": _OPERATIONS + "replicas",
    **dict.fromkeys(
        ("PartitionDescription", "TopicDescription", "TopicListing"), _OPERATIONS + "topic_views"
    ),
    **dict.fromkeys(("CreatedTopic", "NewPartitions", "NewTopic"), _OPERATIONS + "topics"),
}
"""Where names live that are imported when somebody asks for them: ``import kclient`` is cheap."""


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_LATE[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__

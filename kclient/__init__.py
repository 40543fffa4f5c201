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
    from kclient.admin import Admin
    from kclient.cluster.diagnosis import Diagnosis, diagnose
    from kclient.consumer import Consumer
    from kclient.operations.cluster import BrokerDescription, ClusterDescription, VersionRange
    from kclient.operations.configs import (
        ConfigChange,
        ConfigEntry,
        ConfigResource,
        ConfigSynonym,
    )
    from kclient.operations.group_views import GroupDescription, MemberDescription
    from kclient.operations.groups import GroupListing, MemberRef
    from kclient.operations.records import ListedOffset
    from kclient.operations.replicas import Reassignment
    from kclient.operations.topic_views import (
        PartitionDescription,
        TopicDescription,
        TopicListing,
    )
    from kclient.operations.topics import CreatedTopic, NewPartitions, NewTopic
    from kclient.producer import Producer

__all__ = [
    "Admin",
    "BrokerDescription",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSynonym",
    "Consumer",
    "CreatedTopic",
    "Diagnosis",
    "GroupDescription",
    "GroupListing",
    "GroupMetadata",
    "ListedOffset",
    "MemberDescription",
    "MemberRef",
    "NewPartitions",
    "NewTopic",
    "OffsetAndMetadata",
    "PartitionDescription",
    "Producer",
    "ProducerRecord",
    "Reassignment",
    "Record",
    "RecordMetadata",
    "TimestampType",
    "TopicDescription",
    "TopicListing",
    "TopicPartition",
    "VersionRange",
    "__version__",
    "diagnose",
]

# Imported when first asked for: a script that only produces should not pay for the rest.
_LAZY = {
    "Admin": "kclient.admin",
    "Consumer": "kclient.consumer",
    "Diagnosis": "kclient.cluster.diagnosis",
    "Producer": "kclient.producer",
    "diagnose": "kclient.cluster.diagnosis",
    **{
        name: f"kclient.operations.{module}"
        for module, names in {
            "cluster": ("BrokerDescription", "ClusterDescription", "VersionRange"),
            "configs": ("ConfigChange", "ConfigEntry", "ConfigResource", "ConfigSynonym"),
            "group_views": ("GroupDescription", "MemberDescription"),
            "groups": ("GroupListing", "MemberRef"),
            "records": ("ListedOffset",),
            "replicas": ("Reassignment",),
            "topic_views": ("PartitionDescription", "TopicDescription", "TopicListing"),
            "topics": ("CreatedTopic", "NewPartitions", "NewTopic"),
        }.items()
        for name in names
    },
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'kclient' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)

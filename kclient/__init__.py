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
    from kclient.operations.acls import AclBinding, AclFilter
    from kclient.operations.cluster import BrokerDescription, ClusterDescription, VersionRange
    from kclient.operations.configs import ConfigChange, ConfigEntry, ConfigResource, ConfigSynonym
    from kclient.operations.features import Features, FeatureUpdate
    from kclient.operations.group_views import GroupDescription, MemberDescription
    from kclient.operations.groups import GroupListing, MemberRef
    from kclient.operations.log_dirs import LogDir, Replica, ReplicaLog
    from kclient.operations.quorum import Quorum, QuorumReplica
    from kclient.operations.quotas import QUOTA_ANY, QUOTA_DEFAULT, QuotaEntity
    from kclient.operations.records import ListedOffset
    from kclient.operations.replicas import Reassignment
    from kclient.operations.scram import ScramCredential, ScramDeletion, ScramUpsert
    from kclient.operations.tokens import DelegationToken
    from kclient.operations.topic_views import PartitionDescription, TopicDescription, TopicListing
    from kclient.operations.topics import CreatedTopic, NewPartitions, NewTopic
    from kclient.operations.transactions import (
        ProducerIdAndEpoch,
        ProducerState,
        TransactionDescription,
        TransactionListing,
    )
    from kclient.producer import Producer

__all__ = [
    "QUOTA_ANY",
    "QUOTA_DEFAULT",
    "AclBinding",
    "AclFilter",
    "Admin",
    "BrokerDescription",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSynonym",
    "Consumer",
    "CreatedTopic",
    "DelegationToken",
    "Diagnosis",
    "FeatureUpdate",
    "Features",
    "GroupDescription",
    "GroupListing",
    "GroupMetadata",
    "ListedOffset",
    "LogDir",
    "MemberDescription",
    "MemberRef",
    "NewPartitions",
    "NewTopic",
    "OffsetAndMetadata",
    "PartitionDescription",
    "Producer",
    "ProducerIdAndEpoch",
    "ProducerRecord",
    "ProducerState",
    "Quorum",
    "QuorumReplica",
    "QuotaEntity",
    "Reassignment",
    "Record",
    "RecordMetadata",
    "Replica",
    "ReplicaLog",
    "ScramCredential",
    "ScramDeletion",
    "ScramUpsert",
    "TimestampType",
    "TopicDescription",
    "TopicListing",
    "TopicPartition",
    "TransactionDescription",
    "TransactionListing",
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
            "acls": ("AclBinding", "AclFilter"),
            "cluster": ("BrokerDescription", "ClusterDescription", "VersionRange"),
            "configs": ("ConfigChange", "ConfigEntry", "ConfigResource", "ConfigSynonym"),
            "features": ("Features", "FeatureUpdate"),
            "group_views": ("GroupDescription", "MemberDescription"),
            "groups": ("GroupListing", "MemberRef"),
            "log_dirs": ("LogDir", "Replica", "ReplicaLog"),
            "quorum": ("Quorum", "QuorumReplica"),
            "quotas": ("QUOTA_ANY", "QUOTA_DEFAULT", "QuotaEntity"),
            "records": ("ListedOffset",),
            "replicas": ("Reassignment",),
            "scram": ("ScramCredential", "ScramDeletion", "ScramUpsert"),
            "tokens": ("DelegationToken",),
            "topic_views": ("PartitionDescription", "TopicDescription", "TopicListing"),
            "topics": ("CreatedTopic", "NewPartitions", "NewTopic"),
            "transactions": (
                "ProducerIdAndEpoch",
                "ProducerState",
                "TransactionDescription",
                "TransactionListing",
            ),
        }.items()
        for name in names
    },
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'kclient' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)

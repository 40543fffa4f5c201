"""ApiVersions, Metadata, DescribeCluster, FindCoordinator: who is there and what it speaks."""

from __future__ import annotations

from uuid import UUID

from kclient.protocol import Message
from kclient.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kclient.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kclient.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kclient.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kclient.testing.fake.call import Call
from kclient.testing.fake.codes import Code, Refusal
from kclient.testing.fake.handlers.registry import handles
from kclient.testing.fake.state import Node
from kclient.testing.fake.topics import NO_LEADER, Partition, Topic

API_VERSIONS = 18
_NO_ID = UUID(int=0)
_TRANSACTION_VERSION = "transaction.version"
_KEY_TYPES = range(3)  # group, transactional id, share partition


@handles(ApiVersionsRequest)
def api_versions(call: Call, request: ApiVersionsRequest) -> Message:
    """Tell what this broker speaks, and the transaction version of the cluster."""
    level = call.state.settings.transaction_version
    features = [SupportedFeatureKey(name=_TRANSACTION_VERSION, min_version=0, max_version=2)]
    finalized = FinalizedFeatureKey(
        name=_TRANSACTION_VERSION, min_version_level=level, max_version_level=level
    )
    return ApiVersionsResponse(
        api_keys=_ranges(call.node),
        supported_features=features,
        finalized_features=[finalized] if level else [],
        finalized_features_epoch=1,
    )


def newest_answer(node: Node) -> ApiVersionsResponse:
    """The answer, in v0, to a client that asked in a version of the future (KIP-511)."""
    own = [ranges for ranges in _ranges(node) if ranges.api_key == API_VERSIONS]
    return ApiVersionsResponse(error_code=Code.UNSUPPORTED_VERSION, api_keys=own)


def _ranges(node: Node) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in node.versions.items()
    ]


@handles(MetadataRequest, itemised=True)
def metadata(call: Call, request: MetadataRequest) -> Message:
    """Tell brokers, topics and leaders; topics come to be if they are asked for and may."""
    state = call.state
    wants_all = request.topics is None or (call.version == 0 and not request.topics)
    if wants_all:
        asked = [MetadataRequestTopic(name=name) for name in sorted(state.topics)]
    else:
        asked = request.topics or []
    brokers = [
        MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
        for node in state.nodes.values()
        if node.is_alive
    ]
    return MetadataResponse(
        brokers=brokers,
        cluster_id=state.settings.cluster_id,
        controller_id=state.controller,
        topics=[_topic_metadata(call, topic, request) for topic in asked],
    )


def _topic_metadata(
    call: Call, asked: MetadataRequestTopic, request: MetadataRequest
) -> MetadataResponseTopic:
    try:
        call.check()
        topic = _find_or_create(call, asked, request.allow_auto_topic_creation)
    except Refusal as refusal:
        # Before v12 the name is not nullable; a topic that is asked for by id has none.
        name = asked.name if call.version >= 12 else asked.name or ""
        return MetadataResponseTopic(
            error_code=refusal.code, name=name, topic_id=asked.topic_id, partitions=[]
        )
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        partitions=[_partition_metadata(call, partition) for partition in topic.partitions],
    )


def _find_or_create(call: Call, asked: MetadataRequestTopic, may_create: bool) -> Topic:
    if asked.name is None or (asked.topic_id != _NO_ID and not asked.name):
        return call.topic("", asked.topic_id)
    state = call.state
    if asked.name not in state.topics and may_create and state.settings.auto_create_topics:
        state.create_topic(asked.name, 1)
        # A broker that just made a topic does not know its leader yet.
        raise Refusal(Code.LEADER_NOT_AVAILABLE)
    return call.topic(asked.name)


def _partition_metadata(call: Call, partition: Partition) -> MetadataResponsePartition:
    alive = call.state.alive
    is_led = partition.leader != NO_LEADER
    return MetadataResponsePartition(
        error_code=0 if is_led else Code.LEADER_NOT_AVAILABLE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=[node for node in partition.replicas if node in alive],
        offline_replicas=[node for node in partition.replicas if node not in alive],
    )


@handles(DescribeClusterRequest)
def describe_cluster(call: Call, request: DescribeClusterRequest) -> Message:
    """Tell the cluster's id, controller and brokers."""
    brokers = [
        DescribeClusterBroker(broker_id=node.id, host=node.host, port=node.port, rack=node.rack)
        for node in call.state.nodes.values()
        if node.is_alive
    ]
    return DescribeClusterResponse(
        cluster_id=call.state.settings.cluster_id,
        controller_id=call.state.controller,
        brokers=brokers,
    )


@handles(FindCoordinatorRequest, itemised=True)
def find_coordinator(call: Call, request: FindCoordinatorRequest) -> Message:
    """Tell the coordinator of one key, since v4 of each of several (KIP-699)."""
    if call.version >= 4:
        found = [_coordinator(call, key, request.key_type) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = _coordinator(call, request.key, request.key_type)
    return FindCoordinatorResponse(
        error_code=one.error_code, node_id=one.node_id, host=one.host, port=one.port
    )


def _coordinator(call: Call, key: str, key_type: int) -> Coordinator:
    try:
        call.check()
        if key_type not in _KEY_TYPES:
            raise Refusal(Code.INVALID_REQUEST)
        node_id = call.state.coordinator(key)
        if node_id == NO_LEADER:
            raise Refusal(Code.COORDINATOR_NOT_AVAILABLE)
    except Refusal as refusal:
        return Coordinator(
            key=key,
            node_id=NO_LEADER,
            host="",
            port=-1,
            error_code=refusal.code,
            error_message=None,
        )
    node = call.state.node(node_id)
    return Coordinator(key=key, node_id=node.id, host=node.host, port=node.port, error_message=None)

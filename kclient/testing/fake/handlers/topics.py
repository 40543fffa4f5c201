"""CreateTopics, DeleteTopics, CreatePartitions, DescribeConfigs."""

from __future__ import annotations

from kclient.protocol import Message
from kclient.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kclient.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kclient.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kclient.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kclient.testing.fake.call import Call
from kclient.testing.fake.codes import Code, Refusal
from kclient.testing.fake.handlers.registry import code_of, handles

_DEFAULT = -1
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_TOPIC_SOURCE, _DEFAULT_SOURCE = 1, 5


@handles(CreateTopicsRequest, itemised=True)
def create_topics(call: Call, request: CreateTopicsRequest) -> Message:
    """Make topics; any broker does it, as those since KRaft hand it to the controller."""
    topics = [_create(call, wanted, request.validate_only) for wanted in request.topics]
    return CreateTopicsResponse(topics=topics)


def _create(call: Call, wanted: CreatableTopic, validate_only: bool) -> CreatableTopicResult:
    result = CreatableTopicResult(name=wanted.name, error_message=None)
    state = call.state
    count = len(wanted.assignments) or (
        1 if wanted.num_partitions == _DEFAULT else wanted.num_partitions
    )
    replication = None if wanted.replication_factor == _DEFAULT else wanted.replication_factor
    if wanted.assignments:
        replication = len(wanted.assignments[0].broker_ids)
    configs = {config.name: config.value or "" for config in wanted.configs}
    try:
        call.check()
        topic = state.create_topic(wanted.name, count, replication=replication, configs=configs)
    except Refusal as refusal:
        result.error_code = refusal.code
        result.error_message = f"the fake cluster refuses the topic {wanted.name!r}"
        return result
    if validate_only:
        state.delete_topic(topic.name)
    else:
        result.topic_id = topic.id
    for assignment in wanted.assignments:
        topic.partitions[assignment.partition_index].move_to(assignment.broker_ids)
    result.num_partitions = count
    result.replication_factor = len(topic.partitions[0].replicas)
    return result


@handles(DeleteTopicsRequest, itemised=True)
def delete_topics(call: Call, request: DeleteTopicsRequest) -> Message:
    """Remove topics, by name or, since v6, by id."""
    wanted = request.topics
    if call.version < 6:
        wanted = [DeleteTopicState(name=name) for name in request.topic_names]
    return DeleteTopicsResponse(responses=[_delete(call, topic) for topic in wanted])


def _delete(call: Call, wanted: DeleteTopicState) -> DeletableTopicResult:
    result = DeletableTopicResult(name=wanted.name, topic_id=wanted.topic_id)
    try:
        call.check()
        by_id = wanted.topic_id if wanted.name is None else None
        topic = call.topic(wanted.name or "", by_id)
        call.state.delete_topic(topic.name)
    except Refusal as refusal:
        result.error_code = refusal.code
        return result
    result.name, result.topic_id = topic.name, topic.id
    return result


@handles(CreatePartitionsRequest, itemised=True)
def create_partitions(call: Call, request: CreatePartitionsRequest) -> Message:
    """Grow topics."""
    results = [
        CreatePartitionsTopicResult(
            name=wanted.name, error_code=code_of(_grow, call, wanted, request)
        )
        for wanted in request.topics
    ]
    return CreatePartitionsResponse(results=results)


def _grow(call: Call, wanted: CreatePartitionsTopic, request: CreatePartitionsRequest) -> None:
    call.check()
    if wanted.count <= len(call.topic(wanted.name).partitions):
        raise Refusal(Code.INVALID_PARTITIONS)
    if not request.validate_only:
        call.state.grow_topic(wanted.name, wanted.count)


@handles(DescribeConfigsRequest, itemised=True)
def describe_configs(call: Call, request: DescribeConfigsRequest) -> Message:
    """Tell the few settings that the fake obeys, and those a topic was made with."""
    results = [_describe(call, resource) for resource in request.resources]
    return DescribeConfigsResponse(results=results)


def _describe(call: Call, resource: DescribeConfigsResource) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
    settings = call.state.settings
    own: dict[str, str] = {}
    defaults = {
        "max.message.bytes": str(settings.max_message_bytes),
        "min.insync.replicas": str(settings.min_insync_replicas),
    }
    try:
        call.check()
        if resource.resource_type == _TOPIC_RESOURCE:
            own = call.topic(resource.resource_name).configs
        elif resource.resource_type != _BROKER_RESOURCE:
            raise Refusal(Code.INVALID_REQUEST)
    except Refusal as refusal:
        result.error_code = refusal.code
        return result
    keys = resource.configuration_keys
    result.configs = [
        DescribeConfigsResourceResult(
            name=name,
            value=value,
            is_default=name not in own if call.version == 0 else False,
            config_source=_TOPIC_SOURCE if name in own else _DEFAULT_SOURCE,
            documentation=None,
        )
        for name, value in {**defaults, **own}.items()
        if keys is None or name in keys
    ]
    return result

"""Topics: made, deleted, given more partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from uuid import UUID

from kclient.cluster.call import Call
from kclient.errors import InvalidRequest, KafkaError, UnsupportedVersion
from kclient.operations.configs import SOURCES, ConfigEntry, ConfigValue
from kclient.operations.given import (
    INT16_MAX,
    check_topic,
    known_id,
    name_of,
    need,
    several,
    text_of,
)
from kclient.operations.many import (
    CONTROLLER_CODES,
    CallFor,
    Many,
    Results,
    failed,
    outcome,
    reading,
)
from kclient.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kclient.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kclient.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

_INVALID_PARTITIONS, _INVALID_REPLICATION, _INVALID_ASSIGNMENT = 37, 38, 39
_BY_BROKER = -1


@dataclass(frozen=True)
class NewTopic:
    """A topic to make. A number that is None is the cluster's default (since Kafka 2.4).

    ``assignments`` are the broker ids of each partition's replicas, from partition 0 on,
    instead of the two numbers; the first replica is the preferred leader. Raises
    InvalidRequest for what Kafka would refuse.
    """

    name: str
    num_partitions: int | None = None
    replication_factor: int | None = None
    assignments: Sequence[Sequence[int]] | Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, ConfigValue] | None = None

    def __post_init__(self) -> None:
        check_topic(self.name)
        if self.assignments is not None:
            if self.num_partitions is not None or self.replication_factor is not None:
                raise InvalidRequest(
                    f"topic {self.name!r}: give assignments, or num_partitions and "
                    "replication_factor, not both"
                )
            check_assignments(self.name, self.replicas)
        if self.num_partitions is not None and self.num_partitions < 1:
            raise InvalidRequest(
                f"topic {self.name!r}: num_partitions is 1 or more, not {self.num_partitions}",
                _INVALID_PARTITIONS,
            )
        factor = self.replication_factor
        if factor is not None and not 1 <= factor <= INT16_MAX:
            raise InvalidRequest(
                f"topic {self.name!r}: replication_factor is 1 or more, and at most the number "
                f"of brokers, not {factor}",
                _INVALID_REPLICATION,
            )

    @property
    def replicas(self) -> list[Sequence[int]]:
        """The assignments from partition 0 on, none if the brokers are to choose."""
        if isinstance(self.assignments, Mapping):
            if sorted(self.assignments) != list(range(len(self.assignments))):
                raise InvalidRequest(
                    f"topic {self.name!r}: assignments are for partitions 0, 1, 2, ... without "
                    f"a gap, not for {sorted(self.assignments)}",
                    _INVALID_ASSIGNMENT,
                )
            return [self.assignments[number] for number in range(len(self.assignments))]
        return list(self.assignments or ())

    @property
    def width(self) -> int:
        """How many brokers it needs at least."""
        replicas = self.replicas
        return len(replicas[0]) if replicas else self.replication_factor or 1


@dataclass(frozen=True)
class CreatedTopic:
    """A topic that was made, as far as the broker tells: the id since 2.8, the rest since 2.4."""

    name: str
    topic_id: UUID | None = None
    num_partitions: int | None = None
    replication_factor: int | None = None
    told: Sequence[CreatableTopicConfigs] | None = field(default=None, repr=False)
    """The configs as the broker sent them."""

    @cached_property
    def configs(self) -> Mapping[str, ConfigEntry] | None:
        """All configs of the topic, None if the broker does not tell them.

        Made when somebody asks: for 1,000 topics there are some 35,000 of them.
        """
        if self.told is None:
            return None
        return {
            each.name: ConfigEntry(
                each.name,
                each.value,
                name_of(SOURCES, each.config_source),
                is_read_only=each.read_only,
                is_sensitive=each.is_sensitive,
            )
            for each in self.told
        }


@dataclass(frozen=True)
class NewPartitions:
    """How many partitions a topic shall have, and the replicas of those that are new."""

    total_count: int
    assignments: Sequence[Sequence[int]] | None = None


def check_assignments(topic: str, replicas: Sequence[Sequence[int]]) -> None:
    """Raise InvalidRequest unless each partition has as many replicas, no broker twice."""
    widths = {len(each) for each in replicas}
    if len(widths) != 1 or 0 in widths or any(len(set(each)) != len(each) for each in replicas):
        raise InvalidRequest(
            f"topic {topic!r}: each partition has the same number of replicas, at least one, "
            f"on different brokers, not {list(replicas)!r}",
            _INVALID_ASSIGNMENT,
        )


def too_wide(topic: str, width: int, brokers: Collection[int]) -> InvalidRequest:
    """The error for more replicas than there are brokers."""
    return InvalidRequest(
        f"topic {topic!r}: replication factor {width} is larger than the number of brokers; "
        f"the cluster has {len(brokers)}: {sorted(brokers)}",
        _INVALID_REPLICATION,
    )


# --- create ---


def read_new(given: Iterable[NewTopic | str]) -> dict[str, NewTopic]:
    """Topics to make, by name; a name alone takes the defaults. Raises InvalidRequest."""
    topics: dict[str, NewTopic] = {}
    if isinstance(given, (str, NewTopic)):
        raise InvalidRequest(f"give a list of NewTopic, not {given!r}")
    for each in given:
        topic = NewTopic(each) if isinstance(each, str) else each
        if topic.name in topics:
            raise InvalidRequest(f"topic {topic.name!r} is in the list twice")
        topics[topic.name] = topic
    return topics


def create(topics: Mapping[str, NewTopic], *, validate_only: bool) -> Many[str, CreatedTopic]:
    """Make topics, or only see whether they could be made."""

    def call(names: Sequence[str], timeout_ms: int) -> CallFor[str, CreatedTopic]:
        def build(version: int) -> CreateTopicsRequest:
            if validate_only:
                need(version, 1, "only validate topics", "0.10.2")
            return CreateTopicsRequest(
                topics=[_creatable(topics[name], version) for name in names],
                timeout_ms=timeout_ms,
                validate_only=validate_only,
            )

        return Call(CreateTopicsRequest, build, reading(CreateTopicsResponse, _created))

    return Many("creating topics", list(topics), call)


def _creatable(topic: NewTopic, version: int) -> CreatableTopic:
    replicas = topic.replicas
    count, factor = topic.num_partitions, topic.replication_factor
    if version < 4 and not replicas and (count is None or factor is None):
        raise UnsupportedVersion(
            f"topic {topic.name!r}: the broker has no default for num_partitions and "
            "replication_factor; give both, for Kafka has one since 2.4"
        )
    return CreatableTopic(
        name=topic.name,
        num_partitions=_BY_BROKER if count is None else count,
        replication_factor=_BY_BROKER if factor is None else factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=list(nodes))
            for number, nodes in enumerate(replicas)
        ],
        configs=[
            CreatableTopicConfig(name=name, value=None if value is None else text_of(value))
            for name, value in (topic.configs or {}).items()
        ],
    )


def _created(answer: CreateTopicsResponse) -> Results[str, CreatedTopic]:
    return {row.name: _made(row) for row in answer.topics}


def _made(row: CreatableTopicResult) -> CreatedTopic | KafkaError:
    if row.error_code:
        what = f"topic {row.name!r} was not created"
        return failed(row.error_code, what, row.error_message, again=CONTROLLER_CODES)
    is_told = row.configs and not row.topic_config_error_code
    return CreatedTopic(
        row.name,
        known_id(row.topic_id),
        row.num_partitions if row.num_partitions > 0 else None,
        row.replication_factor if row.replication_factor > 0 else None,
        row.configs if is_told else None,
    )


# --- delete ---


def delete(given: Iterable[str | UUID]) -> Many[str | UUID, None]:
    """Delete topics, by name or by id (since Kafka 2.8)."""
    topics = several(given, "topic names")
    for topic in topics:
        if not isinstance(topic, UUID):
            check_topic(topic)

    def call(items: Sequence[str | UUID], timeout_ms: int) -> CallFor[str | UUID, None]:
        def build(version: int) -> DeleteTopicsRequest:
            if version >= 6:
                states = [_state(item) for item in items]
                return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)
            if any(isinstance(item, UUID) for item in items):
                need(version, 6, "delete a topic by its id", "2.8")
            names = [str(item) for item in items]
            return DeleteTopicsRequest(topic_names=names, timeout_ms=timeout_ms)

        def read(answer: DeleteTopicsResponse) -> Results[str | UUID, None]:
            ids = {item for item in items if isinstance(item, UUID)}
            results: Results[str | UUID, None] = {}
            for row in answer.responses:
                # Asked by id, the broker tells the name too: the caller's key is the one to use.
                item = row.topic_id if row.topic_id in ids else row.name or row.topic_id
                what = f"topic {str(item)!r} was not deleted"
                results[item] = outcome(
                    row.error_code, what, row.error_message, again=CONTROLLER_CODES
                )
            return results

        return Call(DeleteTopicsRequest, build, reading(DeleteTopicsResponse, read))

    return Many("deleting topics", topics, call)


def _state(topic: str | UUID) -> DeleteTopicState:
    if isinstance(topic, UUID):
        return DeleteTopicState(topic_id=topic)
    return DeleteTopicState(name=topic)


# --- more partitions ---


def create_partitions(
    given: Mapping[str, int | NewPartitions], *, validate_only: bool
) -> Many[str, None]:
    """Give topics more partitions; there is no way back."""
    wanted = {
        check_topic(name): NewPartitions(each) if isinstance(each, int) else each
        for name, each in given.items()
    }
    for name, each in wanted.items():
        if each.total_count < 1:
            raise InvalidRequest(
                f"topic {name!r}: the number of partitions is 1 or more, not {each.total_count}",
                _INVALID_PARTITIONS,
            )
        if each.assignments is not None:
            check_assignments(name, each.assignments)

    def call(names: Sequence[str], timeout_ms: int) -> CallFor[str, None]:
        def build(version: int) -> CreatePartitionsRequest:
            return CreatePartitionsRequest(
                topics=[_wider(name, wanted[name]) for name in names],
                timeout_ms=timeout_ms,
                validate_only=validate_only,
            )

        def read(answer: CreatePartitionsResponse) -> Results[str, None]:
            return {
                row.name: outcome(
                    row.error_code,
                    f"topic {row.name!r} got no more partitions",
                    row.error_message,
                    again=CONTROLLER_CODES,
                )
                for row in answer.results
            }

        return Call(CreatePartitionsRequest, build, reading(CreatePartitionsResponse, read))

    return Many("creating partitions", list(wanted), call)


def _wider(name: str, wanted: NewPartitions) -> CreatePartitionsTopic:
    assignments = None
    if wanted.assignments is not None:
        assignments = [CreatePartitionsAssignment(broker_ids=list(e)) for e in wanted.assignments]
    return CreatePartitionsTopic(name=name, count=wanted.total_count, assignments=assignments)

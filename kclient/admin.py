"""``Admin``: everything an operator does, one short blocking method each.

The file is longer than others because the class is: it has a method for each operation and
nothing else. What a method sends and reads is in ``kclient.operations``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload
from uuid import UUID

from kclient.cluster import ANY, CONTROLLER, Call, Metadata, Router
from kclient.cluster.recent import RecentTopics
from kclient.config import AdminKeywords, AdminOptions, from_properties, resolve
from kclient.deadline import Deadline
from kclient.errors import PartialFailure, UnsupportedVersion
from kclient.net.pool import Pool
from kclient.operations import (
    cluster,
    configs,
    group_offsets,
    group_views,
    groups,
    records,
    replicas,
    topic_views,
    topics,
)
from kclient.operations.cluster import ClusterDescription, VersionRange
from kclient.operations.configs import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigValue,
)
from kclient.operations.given import several
from kclient.operations.group_offsets import Groups
from kclient.operations.group_views import GroupDescription
from kclient.operations.groups import GroupListing, MemberRef
from kclient.operations.many import CallFor, Many, Results, each_broker, settle, succeeded
from kclient.operations.records import IsolationLevel, ListedOffset, OffsetSpec
from kclient.operations.replicas import ElectionType, Reassignment
from kclient.operations.topic_views import TopicDescription, TopicListing
from kclient.operations.topics import CreatedTopic, NewPartitions, NewTopic
from kclient.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

K = TypeVar("K")
T = TypeVar("T")
_MOMENT = 0.02  # seconds in which brokers usually hear of a new topic


class Admin:
    """A cluster's operator.

    ::

        with Admin("localhost:9092") as admin:
            admin.create_topic("orders", num_partitions=6, configs={"retention.ms": 86_400_000})

    Options are those of every client, in ``kclient.config.ClientOptions``. Each method
    blocks for at most ``timeout`` seconds, by default ``default_api_timeout_ms``, and is
    safe to call from several threads. Besides what its docstring says, each raises

    - ``PartialFailure`` where it is about many items and some failed: ``.results`` has
      those that went well, ``.failures`` the error of each other;
    - ``InvalidRequest`` for what breaks a rule of Kafka, before anything is sent;
    - ``NotAuthorized``, ``KafkaTimeout``, ``TransportError``, ``AuthenticationError``;
    - ``UnsupportedVersion`` if the broker is too old, saying which Kafka could;
    - ``ClientClosedError`` after ``close()``.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str], **options: Unpack[AdminKeywords]
    ) -> None:
        """Raises ConfigError. Nothing is connected to before the first call."""
        given = {**options, "bootstrap_servers": bootstrap_servers}
        self._options = resolve(AdminOptions, given)
        self._pool = Pool(self._options)
        self._metadata = Metadata(self._options, self._pool)
        self._router = Router(self._options, self._pool, self._metadata)
        self._recent = RecentTopics()

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, object] | str | PathLike[str], **options: Any
    ) -> Self:
        """An Admin by dotted names: a mapping, or the path of a properties file.

        Java's and librdkafka's spellings are known; ``options`` win over them.
        """
        return cls(**{**from_properties(AdminOptions, properties), **options})

    def close(self) -> None:
        """Close all connections; may be called again."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Admin of {self._options['bootstrap_servers']}>"

    # --- topics ---

    def create_topics(
        self,
        new_topics: Iterable[NewTopic | str],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[str, CreatedTopic]:
        """Make topics, or with ``validate_only`` see whether they could be made.

        The failures are TopicExists, InvalidRequest, NotAuthorized and others.
        """
        deadline = self._deadline(timeout)
        wanted = topics.read_new(new_topics)
        self._check_width(wanted.values(), deadline)
        many = topics.create(wanted, validate_only=validate_only)
        results = self._try_each(many, deadline)
        if not validate_only:
            self._recent.note(succeeded(results), exist=True)
        return settle(many.what, results, deadline.seconds)

    def create_topic(
        self,
        name: str,
        num_partitions: int | None = None,
        replication_factor: int | None = None,
        *,
        assignments: Sequence[Sequence[int]] | Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, ConfigValue] | None = None,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> CreatedTopic:
        """Make one topic; see ``NewTopic``. Raises TopicExists and the like themselves."""
        topic = NewTopic(name, num_partitions, replication_factor, assignments, configs)
        with _Single():
            made = self.create_topics([topic], validate_only=validate_only, timeout=timeout)
        return made[name]

    def delete_topics(
        self, names: Iterable[str | UUID], *, timeout: float | None = None
    ) -> dict[str | UUID, None]:
        """Delete topics with all their records, by name or by id (since Kafka 2.8).

        The failures are TopicNotFound, NotAuthorized and others.
        """
        deadline, many = self._deadline(timeout), topics.delete(names)
        results = self._try_each(many, deadline)
        gone = [name for name in succeeded(results) if isinstance(name, str)]
        self._recent.note(gone, exist=False)
        for name in gone:  # asking an old broker for it would make it again
            self._metadata.forget_topic(name)
        return settle(many.what, results, deadline.seconds)

    def list_topics(
        self, *, include_internal: bool = False, timeout: float | None = None
    ) -> dict[str, TopicListing]:
        """Every topic this user may see, by name; Kafka's own ones only if asked for."""
        deadline = self._deadline(timeout)
        found = self._router.ask(ANY, topic_views.listing(), deadline)
        while not self._recent.shows(found) and deadline.left() > _MOMENT:
            time.sleep(_MOMENT)
            found = self._router.ask(ANY, topic_views.listing(), deadline)
        return {
            name: topic
            for name, topic in sorted(found.items())
            if include_internal or not topic.is_internal
        }

    def describe_topics(
        self,
        names: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> dict[str, TopicDescription]:
        """Partitions, leaders and replicas of topics. The failures are TopicNotFound and others."""
        rights = include_authorized_operations
        many = topic_views.describe(names, rights=rights, fresh=self._recent.made())
        return self._gather(many, self._deadline(timeout))

    def create_partitions(
        self,
        counts: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[str, None]:
        """Let topics have that many partitions in all; there is no way back."""
        many = topics.create_partitions(counts, validate_only=validate_only)
        return self._gather(many, self._deadline(timeout))

    # --- records and replicas ---

    def list_offsets(
        self,
        specs: Mapping[TopicPartition, OffsetSpec] | Iterable[TopicPartition],
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
        timeout: float | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """Look up offsets: ``"latest"``, ``"earliest"``, a timestamp in ms; see OffsetSpec.

        Partitions alone ask for the latest, which is the offset that the next record gets.
        """
        many = records.list_offsets(records.read_specs(specs), isolation_level)
        return self._gather(many, self._deadline(timeout))

    def delete_records(
        self,
        offsets: Mapping[TopicPartition, int | Literal["latest"]],
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, int]:
        """Delete the records before an offset, or all; tell the first offset that is left."""
        return self._gather(records.delete(offsets), self._deadline(timeout))

    def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election_type: ElectionType = "preferred",
        timeout: float | None = None,
    ) -> dict[TopicPartition, bool]:
        """Elect leaders, of all partitions if none are given.

        True for those that have a new one, False where none was needed. An ``unclean`` one
        may lose records: it is for partitions that have no leader at all.
        """
        deadline = self._deadline(timeout)
        if partitions is not None:
            return self._gather(replicas.elect(partitions, election_type), deadline)
        call = replicas.elect_all(election_type, self._broker_ms(deadline))
        results = self._router.ask(CONTROLLER, call, deadline)
        return settle("electing leaders", results, deadline.seconds)

    def alter_partition_reassignments(
        self,
        assignments: Mapping[TopicPartition, Sequence[int] | None],
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, None]:
        """Move partitions to these brokers, or with None cancel a move; it only starts here.

        The failures are InvalidRequest, TopicNotFound and others.
        """
        return self._gather(replicas.reassign(assignments), self._deadline(timeout))

    def list_partition_reassignments(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, Reassignment]:
        """The moves that are under way, of these partitions or all."""
        deadline = self._deadline(timeout)
        call = replicas.list_reassignments(partitions, self._broker_ms(deadline))
        return self._router.ask(CONTROLLER, call, deadline)

    # --- configs ---

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Every config of topics, brokers, groups: its value, and where that is from."""
        many = configs.describe(
            resources, synonyms=include_synonyms, documentation=include_documentation
        )
        return self._gather(many, self._deadline(timeout))

    def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, ConfigValue | ConfigChange]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, None]:
        """Set configs, or with None take the setting away; all others stay as they are.

        A broker before 2.3 can only replace all settings of a resource: they are read, changed
        and written back, and what somebody else changes in between is lost.
        """
        deadline, wanted = self._deadline(timeout), configs.read_changes(changes)
        try:
            return self._gather(configs.alter(wanted, validate_only=validate_only), deadline)
        except UnsupportedVersion:
            present = self._gather(configs.describe(wanted), deadline)
        settings = {
            resource: configs.with_changes(resource, present[resource], wanted[resource])
            for resource in wanted
        }
        return self._gather(configs.replace(settings, validate_only=validate_only), deadline)

    # --- groups ---

    def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        timeout: float | None = None,
    ) -> dict[str, GroupListing]:
        """Every group of every kind, by id; only those in some ``states``, of some ``types``."""
        found = self._ask_brokers("listing groups", groups.listing(states, types), timeout)
        return {each.group_id: each for listed in found.values() for each in listed}

    def describe_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> dict[str, GroupDescription]:
        """Members and what each has: of classic, consumer, share and streams groups."""
        deadline = self._deadline(timeout)
        pending = [groups.check_group(each) for each in several(group_ids, "group ids")]
        results: Results[str, GroupDescription] = {}
        for describe in group_views.KINDS:
            found = self._try_each(describe(pending, include_authorized_operations), deadline)
            if results and all(isinstance(each, UnsupportedVersion) for each in found.values()):
                break
            results.update(found)
            pending = [each for each in pending if group_views.is_of_another_kind(found[each])]
        results.update({each: group_views.not_found(each) for each in pending})
        return settle("describing groups", results, deadline.seconds)

    def delete_groups(
        self, group_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, None]:
        """Delete groups that have no members, with the offsets they have committed."""
        return self._gather(groups.delete(group_ids), self._deadline(timeout))

    def remove_members(
        self,
        group_id: str,
        members: Iterable[str | MemberRef] | None = None,
        *,
        reason: str | None = None,
        timeout: float | None = None,
    ) -> dict[MemberRef, None]:
        """Have a group go on without these members (ids, or MemberRefs), or without any."""
        deadline = self._deadline(timeout)
        if members is None:
            found = self.describe_groups([group_id], timeout=timeout)[group_id].members
            members = [MemberRef(each.member_id, each.instance_id) for each in found]
        wanted = groups.read_members(members)
        return self._gather(groups.remove_members(group_id, wanted, reason), deadline)

    @overload
    def list_group_offsets(
        self,
        group_ids: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]: ...

    @overload
    def list_group_offsets(
        self,
        group_ids: Groups,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]: ...

    def list_group_offsets(
        self,
        group_ids: str | Groups,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> (
        dict[TopicPartition, OffsetAndMetadata] | dict[str, dict[TopicPartition, OffsetAndMetadata]]
    ):
        """What a group has committed, by partition; of many groups, by group.

        Partitions without a committed offset are left out. ``require_stable`` waits for
        transactions that are about to commit (since Kafka 2.5).
        """
        deadline = self._deadline(timeout)
        if isinstance(group_ids, str):
            with _Single():
                found = self._group_offsets({group_ids: partitions}, require_stable, deadline)
            return found[group_ids]
        return self._group_offsets(group_ids, require_stable, deadline)

    def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, None]:
        """Say where a group reads on; it must have no members."""
        many = group_offsets.alter(groups.check_group(group_id), offsets)
        return self._gather(many, self._deadline(timeout))

    def delete_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, None]:
        """Forget what a group has committed in partitions of topics it does not read now."""
        many = group_offsets.delete(groups.check_group(group_id), partitions)
        return self._gather(many, self._deadline(timeout))

    # --- cluster ---

    def describe_cluster(
        self,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        timeout: float | None = None,
    ) -> ClusterDescription:
        """The cluster's id, controller and brokers; those that are fenced since Kafka 4.0."""
        rights, fenced = include_authorized_operations, include_fenced_brokers
        deadline = self._deadline(timeout)
        try:
            return self._router.ask(ANY, cluster.describe(rights=rights, fenced=fenced), deadline)
        except UnsupportedVersion:
            if fenced:
                raise
        return self._router.ask(ANY, cluster.describe_old(rights=rights), deadline)

    def api_versions(self, *, timeout: float | None = None) -> dict[int, dict[str, VersionRange]]:
        """What each broker speaks: the versions of each API, by node id."""
        return self._ask_brokers("asking for versions", cluster.api_versions(), timeout)

    # --- how it is done ---

    def _deadline(self, timeout: float | None) -> Deadline:
        self._pool.check_usable()
        default = self._options["default_api_timeout_ms"] / 1000
        return Deadline(default if timeout is None else timeout)

    def _broker_ms(self, deadline: Deadline) -> int:
        """For how long a broker may work on a request."""
        return max(1, min(self._options["request_timeout_ms"], int(deadline.left() * 1000)))

    def _gather(self, many: Many[K, T], deadline: Deadline) -> dict[K, T]:
        results: Results[K, T] = self._try_each(many, deadline)
        return settle(many.what, results, deadline.seconds)

    def _try_each(self, many: Many[K, T], deadline: Deadline) -> Results[K, T]:
        def call(items: Sequence[K]) -> CallFor[K, T]:
            return many.call(items, self._broker_ms(deadline))

        return self._router.gather(many.items, many.target, call, deadline)

    def _ask_brokers(self, what: str, call: Call[T], timeout: float | None) -> dict[int, T]:
        """Ask every broker of the cluster the same."""
        deadline = self._deadline(timeout)
        nodes = sorted(self._metadata.brokers(deadline))
        return self._gather(each_broker(what, nodes, call), deadline)

    def _group_offsets(
        self,
        given: Groups,
        stable: bool,
        deadline: Deadline,
    ) -> dict[str, group_offsets.Offsets]:
        wanted = group_offsets.read_wanted(given)
        many = group_offsets.fetch(wanted, stable=stable)
        results: Results[str, group_offsets.Offsets] = self._try_each(many, deadline)
        for group in wanted if len(wanted) > 1 else ():  # brokers before 3.0: one by one
            if isinstance(results[group], UnsupportedVersion):
                alone = group_offsets.fetch({group: wanted[group]}, stable=stable)
                told: Results[str, group_offsets.Offsets] = self._try_each(alone, deadline)
                results.update(told)
        return settle(many.what, results, deadline.seconds)

    def _check_width(self, wanted: Iterable[NewTopic], deadline: Deadline) -> None:
        """Refuse more replicas than there are brokers, where that is certain.

        KRaft puts replicas on brokers that are down too, which only 4.0 and later list.
        """
        known = self._metadata.brokers(deadline)
        wide = [topic for topic in wanted if topic.width > len(known)]
        if not wide:
            return
        try:
            found = self._router.ask(ANY, cluster.describe(fenced=True), deadline)
        except UnsupportedVersion:
            return
        for topic in wide:
            if topic.width > len(found.brokers):
                raise topics.too_wide(topic.name, topic.width, found.brokers)


class _Single:
    """For a call about one item: its error comes out as it is."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if isinstance(error, PartialFailure):
            (failure,) = error.failures.values()
            raise failure from None

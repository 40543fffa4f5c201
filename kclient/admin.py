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

from kclient.cluster import ANY, CONTROLLER, Call, Metadata, Router, Target
from kclient.cluster.metadata import TOPIC_GRACE
from kclient.cluster.recent import OWN_GRACE, RecentTopics
from kclient.config import AdminKeywords, AdminOptions, from_properties, resolve
from kclient.deadline import Deadline
from kclient.errors import PartialFailure, UnsupportedVersion
from kclient.net.pool import Pool
from kclient.operations import (
    acls,
    cluster,
    configs,
    features,
    group_offsets,
    group_views,
    groups,
    log_dirs,
    quorum,
    quotas,
    records,
    replicas,
    scram,
    tokens,
    topic_views,
    topics,
    transactions,
)
from kclient.operations.acls import AclBinding, AclFilter
from kclient.operations.cluster import ClusterDescription, VersionRange
from kclient.operations.configs import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigValue,
)
from kclient.operations.features import Features, FeatureUpdate
from kclient.operations.given import several
from kclient.operations.group_offsets import Groups
from kclient.operations.group_views import GroupDescription
from kclient.operations.groups import GroupListing, MemberRef
from kclient.operations.log_dirs import LogDir, Replica
from kclient.operations.many import CallFor, Many, Results, each_broker, settle, succeeded
from kclient.operations.quorum import Quorum
from kclient.operations.quotas import QuotaEntity
from kclient.operations.records import IsolationLevel, ListedOffset, OffsetSpec
from kclient.operations.replicas import ElectionType, Reassignment
from kclient.operations.scram import ScramCredential, ScramDeletion, ScramUpsert
from kclient.operations.tokens import DelegationToken
from kclient.operations.topic_views import TopicDescription, TopicListing
from kclient.operations.topics import CreatedTopic, NewPartitions, NewTopic
from kclient.operations.transactions import (
    ProducerIdAndEpoch,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
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
        gone = succeeded(results)
        if any(isinstance(topic, UUID) for topic in gone):
            self._recent.clear()  # it may have been one of them
        self._recent.note([topic for topic in gone if isinstance(topic, str)], exist=False)
        for topic in gone:  # asking an old broker for it would make it again
            self._metadata.forget_topic(str(topic))
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
        deadline = self._deadline(timeout)
        many = topic_views.describe(names, rights=rights, fresh=self._recent.made())
        results = self._try_each(many, deadline, grace=OWN_GRACE)
        self._recent.see(succeeded(results))
        return settle(many.what, results, deadline.seconds)

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
        wanted = [groups.check_group(each) for each in several(group_ids, "group ids")]
        return self._describe_groups(wanted, include_authorized_operations, self._deadline(timeout))

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
            with _Single():
                found = self._describe_groups([group_id], False, deadline)[group_id].members
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

    # --- access ---

    def describe_acls(
        self, wanted: AclFilter | AclBinding | None = None, *, timeout: float | None = None
    ) -> list[AclBinding]:
        """The ACLs that fit a filter, or all."""
        return self._ask(ANY, acls.describe(wanted or AclFilter()), timeout)

    def create_acls(
        self, bindings: Iterable[AclBinding], *, timeout: float | None = None
    ) -> dict[AclBinding, None]:
        """Grant or deny; what is so already is no error."""
        return self._gather(acls.create(bindings), self._deadline(timeout))

    def delete_acls(
        self, filters: Iterable[AclFilter | AclBinding], *, timeout: float | None = None
    ) -> dict[AclFilter | AclBinding, list[AclBinding]]:
        """Take away the ACLs that fit; tell for each filter which ones those were."""
        return self._gather(acls.delete(filters), self._deadline(timeout))

    def describe_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, tuple[ScramCredential, ...]]:
        """The SCRAM logins of users, or of all who have one; passwords are known to nobody."""
        results = self._ask(CONTROLLER, scram.describe(users), timeout)
        return settle("describing SCRAM credentials", results, 0)

    def alter_scram_credentials(
        self, changes: Iterable[ScramUpsert | ScramDeletion], *, timeout: float | None = None
    ) -> dict[str, None]:
        """Set passwords and take logins away; users succeed or fail each for themselves."""
        deadline = self._deadline(timeout)
        results: Results[str, None] = {}
        for turn in scram.rounds(changes):
            done: Results[str, None] = self._try_each(turn, deadline)
            failures = {user: error for user, error in results.items() if error is not None}
            results = {**results, **done, **failures}
        return settle("altering SCRAM credentials", results, deadline.seconds)

    def create_delegation_token(
        self,
        *,
        renewers: Iterable[str] = (),
        owner: str | None = None,
        max_lifetime_ms: int | None = None,
        timeout: float | None = None,
    ) -> DelegationToken:
        """A token to log in with, of this user or of another ``owner`` (``"User:alice"``).

        This Admin must have logged in itself, and not by a token.
        """
        call = tokens.create(renewers, owner, max_lifetime_ms)
        return self._ask(CONTROLLER, call, timeout)

    def renew_delegation_token(
        self,
        token: DelegationToken | bytes,
        *,
        renew_period_ms: int | None = None,
        timeout: float | None = None,
    ) -> int:
        """Let a token, or one by its HMAC, live longer; tell when it ends, in ms."""
        call = tokens.renew(tokens.hmac_of(token), renew_period_ms)
        return self._ask(CONTROLLER, call, timeout)

    def expire_delegation_token(
        self,
        token: DelegationToken | bytes,
        *,
        expiry_period_ms: int | None = None,
        timeout: float | None = None,
    ) -> int:
        """Let a token, or one by its HMAC, end: at once, or after a while; tell when, in ms."""
        call = tokens.expire(tokens.hmac_of(token), expiry_period_ms)
        return self._ask(CONTROLLER, call, timeout)

    def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> list[DelegationToken]:
        """The tokens of these principals (``"User:alice"``), or all that this user may see."""
        return self._ask(ANY, tokens.describe(owners), timeout)

    def describe_client_quotas(
        self,
        *,
        user: str | None = None,
        client_id: str | None = None,
        ip: str | None = None,
        strict: bool = False,
        timeout: float | None = None,
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Quotas, of all or of those that fit: a name, QUOTA_DEFAULT, or QUOTA_ANY.

        ``strict`` leaves out those that are also for something else.
        """
        wanted = {"user": user, "client-id": client_id, "ip": ip}
        return self._ask(ANY, quotas.describe(wanted, strict), timeout)

    def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[QuotaEntity, None]:
        """Set quotas, such as ``producer_byte_rate``; None takes one away."""
        many = quotas.alter(changes, validate_only=validate_only)
        return self._gather(many, self._deadline(timeout))

    # --- transactions ---

    def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int | None = None,
        id_pattern: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, TransactionListing]:
        """Every transactional id, or only some of them."""
        call = transactions.listing(states, producer_ids, longer_than_ms, id_pattern)
        found = self._ask_brokers("listing transactions", call, timeout)
        return {each.transactional_id: each for listed in found.values() for each in listed}

    def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TransactionDescription]:
        """Transactional ids, and the partitions of the transactions they are in."""
        return self._gather(transactions.describe(transactional_ids), self._deadline(timeout))

    def describe_producers(
        self, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """Who writes to partitions by transactions or idempotently."""
        return self._gather(transactions.describe_producers(partitions), self._deadline(timeout))

    def abort_transaction(
        self, partition: TopicPartition, producer: ProducerState, *, timeout: float | None = None
    ) -> None:
        """End the hanging transaction of a producer, one of ``describe_producers``.

        It is for a transaction that its coordinator has forgotten and that keeps readers of
        committed records waiting; for all others see ``fence_producers``.
        """
        with _Single():
            self._gather(transactions.abort(partition, producer), self._deadline(timeout))

    def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, ProducerIdAndEpoch]:
        """Shut out the producers of transactional ids, and abort their transactions."""
        deadline = self._deadline(timeout)
        results: Results[str, ProducerIdAndEpoch] = {}
        for each in several(transactional_ids, "transactional ids"):
            done: Results[str, ProducerIdAndEpoch] = self._try_each(
                transactions.fence(each), deadline
            )
            results.update(done)
        return settle("fencing producers", results, deadline.seconds)

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

    def describe_log_dirs(
        self,
        nodes: Iterable[int] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout: float | None = None,
    ) -> dict[int, dict[str, LogDir]]:
        """Directories of brokers by node id and path, with the replicas in them and their sizes."""
        return self._ask_brokers(
            "describing log directories", log_dirs.describe(partitions), timeout, nodes
        )

    def alter_replica_log_dirs(
        self, moves: Mapping[Replica, str], *, timeout: float | None = None
    ) -> dict[Replica, None]:
        """Move replicas to other directories of their brokers; it only starts here."""
        return self._gather(log_dirs.alter(moves), self._deadline(timeout))

    def describe_features(self, *, timeout: float | None = None) -> Features:
        """The features that the cluster uses, and the levels it could use."""
        return self._ask(ANY, features.describe(), timeout)

    def update_features(
        self,
        updates: Mapping[str, int | FeatureUpdate],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[str, None]:
        """Set the levels of features: all of them, or none if one cannot be."""
        many = features.update(updates, validate_only=validate_only)
        return self._gather(many, self._deadline(timeout))

    def describe_quorum(self, *, timeout: float | None = None) -> Quorum:
        """The controllers of a KRaft cluster: who leads, and how far the others are."""
        return self._ask(ANY, quorum.describe(), timeout)

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

    def _try_each(
        self, many: Many[K, T], deadline: Deadline, *, grace: float = TOPIC_GRACE
    ) -> Results[K, T]:
        def call(items: Sequence[K]) -> CallFor[K, T]:
            return many.call(items, self._broker_ms(deadline))

        return self._router.gather(many.items, many.target, call, deadline, grace=grace)

    def _ask(self, target: Target, call: Call[T], timeout: float | None) -> T:
        return self._router.ask(target, call, self._deadline(timeout))

    def _ask_brokers(
        self,
        what: str,
        call: Call[T],
        timeout: float | None,
        nodes: Iterable[int] | None = None,
    ) -> dict[int, T]:
        """Ask these brokers, or every one of the cluster, the same."""
        deadline = self._deadline(timeout)
        chosen = sorted(self._metadata.brokers(deadline) if nodes is None else nodes)
        results: Results[int, T] = self._try_each(each_broker(what, chosen, call), deadline)
        return settle(what, results, deadline.seconds, alike=True)

    def _describe_groups(
        self, wanted: Sequence[str], rights: bool, deadline: Deadline
    ) -> dict[str, GroupDescription]:
        pending = list(wanted)
        results: Results[str, GroupDescription] = {}
        for describe in group_views.KINDS:
            found = self._try_each(describe(pending, rights), deadline)
            if results and all(isinstance(each, UnsupportedVersion) for each in found.values()):
                break
            results.update(found)
            pending = [each for each in pending if group_views.is_of_another_kind(found[each])]
        results.update({each: group_views.not_found(each) for each in pending})
        return settle("describing groups", results, deadline.seconds)

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

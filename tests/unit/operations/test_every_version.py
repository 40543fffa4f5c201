"""Every request of Admin can be written in every version its API has, or says why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from kclient import (
    AclBinding,
    AclFilter,
    ConfigChange,
    ConfigResource,
    FeatureUpdate,
    MemberRef,
    NewPartitions,
    NewTopic,
    ProducerState,
    QuotaEntity,
    Replica,
    ScramDeletion,
    ScramUpsert,
    TopicPartition,
)
from kclient.cluster.call import Call
from kclient.errors import UnsupportedVersion
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
from kclient.operations.many import Many
from kclient.protocol import RESPONSES

TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC, BROKER = ConfigResource("topic", "t"), ConfigResource("broker", "1")
CHANGES = {TOPIC: {"a": ConfigChange("append", "x")}, BROKER: {"b": ConfigChange("delete")}}
PRODUCER = ProducerState(1, 2, 3, 4, None, 0)

OPERATIONS: dict[str, Callable[[], Many[Any, Any] | Call[Any]]] = {
    "create topics": lambda: topics.create(
        {"t": NewTopic("t", 1, 1, configs={"a": True}), "u": NewTopic("u", assignments=[[1]])},
        validate_only=False,
    ),
    "validate topics": lambda: topics.create({"t": NewTopic("t", 1, 1)}, validate_only=True),
    "delete topics": lambda: topics.delete(["t", "u"]),
    "delete by id": lambda: topics.delete([UUID(int=7)]),
    "list topics": topic_views.listing,
    "describe topics": lambda: topic_views.describe(["t"], rights=True),
    "create partitions": lambda: topics.create_partitions(
        {"t": 2, "u": NewPartitions(2, [[1]])}, validate_only=True
    ),
    "delete records": lambda: records.delete({TP: 5, OTHER: "latest"}),
    "list offsets": lambda: records.list_offsets({TP: -1, OTHER: -2}, "read_uncommitted"),
    "list offsets by time": lambda: records.list_offsets({TP: 9}, "read_committed"),
    "elect": lambda: replicas.elect([TP], "unclean"),
    "elect all": lambda: replicas.elect_all("preferred", 1000),
    "reassign": lambda: replicas.reassign({TP: [1], OTHER: None}),
    "list reassignments": lambda: replicas.list_reassignments(None, 1000),
    "describe configs": lambda: configs.describe([TOPIC], synonyms=True, documentation=True),
    "alter configs": lambda: configs.alter(CHANGES),
    "replace configs": lambda: configs.replace({TOPIC: {"a": "1"}}, validate_only=True),
    "list groups": lambda: groups.listing(["Stable"], ["classic"]),
    "classic": lambda: group_views.describe_classic(["g"], True),
    "consumer": lambda: group_views.describe_consumer(["g"], True),
    "share": lambda: group_views.describe_share(["g"], True),
    "streams": lambda: group_views.describe_streams(["g"], True),
    "delete groups": lambda: groups.delete(["g", "h"]),
    "remove members": lambda: groups.remove_members("g", [MemberRef("m")], "why"),
    "remove static": lambda: groups.remove_members("g", [MemberRef("", "i"), MemberRef("m")], None),
    "offsets of a group": lambda: group_offsets.fetch({"g": [TP]}, stable=False),
    "offsets of groups": lambda: group_offsets.fetch({"g": None, "h": [TP]}, stable=True),
    "alter offsets": lambda: group_offsets.alter("g", {TP: 3}),
    "delete offsets": lambda: group_offsets.delete("g", [TP, OTHER]),
    "describe acls": lambda: acls.describe(AclFilter()),
    "create acls": lambda: acls.create([AclBinding("topic", "t", "User:a", "read")]),
    "delete acls": lambda: acls.delete([AclFilter(pattern_type="prefixed")]),
    "describe scram": lambda: scram.describe(["a"]),
    "alter scram": lambda: scram.rounds(
        [ScramUpsert("a", "SCRAM-SHA-256", "p"), ScramDeletion("b", "SCRAM-SHA-512")]
    )[0],
    "create token": lambda: tokens.create(["User:b"], None, None),
    "create token for": lambda: tokens.create([], "User:a", 1000),
    "renew token": lambda: tokens.renew(b"hmac", None),
    "expire token": lambda: tokens.expire(b"hmac", 1000),
    "describe tokens": lambda: tokens.describe(["User:a"]),
    "describe quotas": lambda: quotas.describe({"user": "a", "ip": quotas.QUOTA_ANY}, True),
    "alter quotas": lambda: quotas.alter(
        {QuotaEntity(user="a"): {"x": 1.5, "y": None}}, validate_only=True
    ),
    "list transactions": lambda: transactions.listing(["Ongoing"], [1], 5, "a.*"),
    "describe transactions": lambda: transactions.describe(["a"]),
    "describe producers": lambda: transactions.describe_producers([TP]),
    "abort": lambda: transactions.abort(TP, PRODUCER),
    "fence": lambda: transactions.fence("a"),
    "log dirs": lambda: log_dirs.describe([TP]),
    "move replicas": lambda: log_dirs.alter({Replica("t", 0, 1): "/data"}),
    "features": features.describe,
    "update features": lambda: features.update(
        {"a": 1, "b": FeatureUpdate(0, "safe_downgrade")}, validate_only=True
    ),
    "quorum": quorum.describe,
    "cluster": lambda: cluster.describe(rights=True, fenced=True),
    "cluster, old": lambda: cluster.describe_old(rights=False),
    "api versions": cluster.api_versions,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_request_is_written_or_says_what_it_takes(name: str) -> None:
    operation = OPERATIONS[name]()
    call = operation.call(list(operation.items), 1000) if isinstance(operation, Many) else operation
    lowest, highest = call.api.VERSIONS
    written = 0
    for version in range(lowest, min(highest, call.at_most or highest) + 1):
        try:
            request = call.build(version)
        except UnsupportedVersion as error:
            assert "since" in str(error) or "one group at a time" in str(error)
            assert version < highest
            continue
        # Encoding refuses fields that the version lacks: the builder must have seen to that.
        sent = request.encode(version)
        assert type(request).decode(sent, version).encode(version) == sent
        written += 1
    assert written


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_answer_of_another_kind_is_our_fault(name: str) -> None:
    operation = OPERATIONS[name]()
    call = operation.call(list(operation.items), 1000) if isinstance(operation, Many) else operation
    other = 18 if call.api.API_KEY != 18 else 3
    with pytest.raises(TypeError, match="was due"):
        call.read(RESPONSES[other]())

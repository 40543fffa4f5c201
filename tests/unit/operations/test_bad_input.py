"""What breaks a rule of Kafka is refused before anything is sent, with the rule."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from kclient import (
    AclBinding,
    AclFilter,
    ConfigChange,
    ConfigResource,
    FeatureUpdate,
    NewTopic,
    QuotaEntity,
    Replica,
    ScramDeletion,
    ScramUpsert,
    TopicPartition,
)
from kclient.errors import InvalidRequest
from kclient.operations import (
    configs,
    group_offsets,
    groups,
    log_dirs,
    quotas,
    records,
    replicas,
    scram,
    tokens,
    topic_views,
    topics,
)

TP = TopicPartition("t", 0)


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a b", "a/b", "ä", "a:b", "a\n"])
def test_names_that_no_topic_can_have(name: str) -> None:
    for refused in (
        lambda: NewTopic(name),
        lambda: topics.delete([name]),
        lambda: topic_views.describe([name]),
        lambda: topics.create_partitions({name: 2}, validate_only=False),
        lambda: ConfigResource("topic", name),
        lambda: records.delete({TopicPartition(name, 0): 1}),
    ):
        with pytest.raises(InvalidRequest, match="1 to 249 characters out of a-z") as caught:
            refused()
        assert caught.value.code == 17


@pytest.mark.parametrize("name", ["a", "a" * 249, "A.b_c-9", "...", "__consumer_offsets"])
def test_names_that_a_topic_can_have(name: str) -> None:
    assert NewTopic(name).name == name


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "no partitions": (lambda: NewTopic("t", 0), "num_partitions is 1 or more, not 0"),
    "no replicas": (lambda: NewTopic("t", 1, 0), "replication_factor is 1 or more.*not 0"),
    "too many replicas": (lambda: NewTopic("t", 1, 40_000), "replication_factor.*not 40000"),
    "both": (lambda: NewTopic("t", 1, 1, [[1]]), "assignments, or num_partitions.*not both"),
    "a broker twice": (lambda: NewTopic("t", assignments=[[1, 1]]), "on different brokers"),
    "unequal": (lambda: NewTopic("t", assignments=[[1], [1, 2]]), "same number of replicas"),
    "empty": (lambda: NewTopic("t", assignments=[]), "same number of replicas"),
    "a gap": (lambda: NewTopic("t", assignments={0: [1], 2: [1]}), "without a gap"),
    "one topic twice": (lambda: topics.read_new(["t", NewTopic("t")]), "in the list twice"),
    "a string for a list": (lambda: topics.delete("orders"), "give a list of topic names"),
    "a topic for a list": (lambda: topics.read_new("orders"), "give a list of NewTopic"),
    "fewer than one": (
        lambda: topics.create_partitions({"t": 0}, validate_only=False),
        "1 or more, not 0",
    ),
    "no partition": (lambda: records.read_specs(["t"]), r"TopicPartition\(topic, partition\)"),  # type: ignore[list-item]
    "below zero": (lambda: replicas.elect([TopicPartition("t", -1)], "preferred"), "from 0"),
    "no such offset": (lambda: records.read_specs({TP: "last"}), "did you mean 'latest'"),
    "before time": (lambda: records.read_specs({TP: -5}), "a timestamp in ms or one of"),
    "delete before": (lambda: records.delete({TP: -2}), "from 0, or 'latest' for all"),
    "isolation": (lambda: records.list_offsets({TP: 0}, "committed"), "is no isolation level"),  # type: ignore[arg-type]
    "election": (lambda: replicas.elect([TP], "clean"), "did you mean 'unclean'"),  # type: ignore[arg-type]
    "nowhere": (lambda: replicas.reassign({TP: []}), "at least one, or None to cancel"),
    "twice there": (lambda: replicas.reassign({TP: [1, 1]}), "different brokers"),
    "config type": (lambda: ConfigResource("tpoic", "t"), "did you mean 'topic'"),  # type: ignore[arg-type]
    "a broker's name": (lambda: ConfigResource("broker", "one"), "named by its node id"),
    "a logger's": (lambda: ConfigResource("broker_logger"), "named by its node id"),
    "config operation": (lambda: ConfigChange("add", "x"), "is no operation on a config"),  # type: ignore[arg-type]
    "append nothing": (lambda: ConfigChange("append"), "takes a value"),
    "config key": (lambda: configs.read_changes({"t": {}}), r"ConfigResource\(type, name\)"),  # type: ignore[dict-item]
    "no group": (lambda: groups.check_group(""), "not empty"),
    "negative offset": (lambda: group_offsets.alter("g", {TP: -1}), "an offset is 0 or more"),
    "acl operation": (lambda: AclBinding("topic", "t", "User:a", "reed"), "did you mean 'read'"),  # type: ignore[arg-type]
    "acl for any": (lambda: AclBinding("any", "t", "User:a", "read"), "are for filters"),
    "acl match": (
        lambda: AclBinding("topic", "t", "User:a", "read", pattern_type="match"),
        "are for filters",
    ),
    "principal": (lambda: AclBinding("topic", "t", "alice", "read"), "'User:name'"),
    "cluster": (lambda: AclBinding("cluster", "mine", "User:a", "alter"), "'kafka-cluster'"),
    "acl filter": (lambda: AclFilter("topics"), "did you mean 'topic'"),  # type: ignore[arg-type]
    "mechanism": (lambda: ScramDeletion("a", "SCRAM-SHA-1"), "did you mean 'SCRAM-SHA-"),  # type: ignore[arg-type]
    "iterations": (lambda: ScramUpsert("a", "SCRAM-SHA-256", "p", 1000), "4096 to 16384"),
    "password": (lambda: ScramUpsert("a", "SCRAM-SHA-256", ""), "password is empty"),
    "user": (lambda: ScramDeletion("", "SCRAM-SHA-256"), "name is not empty"),
    "changed twice": (
        lambda: scram.rounds(
            [ScramDeletion("a", "SCRAM-SHA-256"), ScramUpsert("a", "SCRAM-SHA-256", "p")]
        ),
        "SCRAM-SHA-256 is changed twice",
    ),
    "renewer": (lambda: tokens.create(["bob"], None, None), "'User:name'"),
    "quota of nobody": (lambda: QuotaEntity(), "not for nobody"),
    "quota of two": (lambda: QuotaEntity(user="a", ip="::1"), "an ip alone"),
    "quota of any": (
        lambda: quotas.alter({QuotaEntity(user=quotas.QUOTA_ANY): {}}, validate_only=False),
        "QuotaEntity of one",
    ),
    "relative": (lambda: log_dirs.alter({Replica("t", 0, 1): "data"}), "an absolute path"),
    "feature": (lambda: FeatureUpdate(0), "0 by a downgrade"),
    "upgrade": (lambda: FeatureUpdate(1, "downgrade"), "did you mean 'safe_downgrade'"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_rule_is_in_the_message(name: str) -> None:
    refused, message = REFUSED[name]
    with pytest.raises(InvalidRequest, match=message) as caught:
        refused()
    assert not caught.value.retriable
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_no_secret_is_shown() -> None:
    change = ScramUpsert("a", "SCRAM-SHA-512", "hunter2", salt=b"pepper")
    assert "hunter2" not in repr(change)
    assert "pepper" not in repr(change)
    (many,) = scram.rounds([change])
    request = many.call(["a"], 1000).build(0)
    assert change.salted_password.hex() not in repr(request)
    assert repr(change.salted_password) not in repr(request)
    token = tokens.DelegationToken("id", b"hmac bytes", "User:a", 1, 2, 3)
    assert "hmac bytes" not in repr(token)

"""What keeps a cluster running: log directories, features, the quorum, configs."""

from __future__ import annotations

import pytest

from kclient import (
    Admin,
    ConfigChange,
    ConfigResource,
    FeatureUpdate,
    Replica,
    TopicPartition,
)
from kclient.errors import InvalidRequest, PartialFailure
from kclient.testing import LocalKafka

from ..exchange import new_name, until
from .peers import read, write

# --- log directories ---


def where(admin: Admin, tp: TopicPartition) -> str:
    """The folder that has a replica, when it has arrived there."""
    found = admin.describe_log_dirs([1], partitions=[tp])[1]
    paths = [path for path, each in found.items() if tp in each.replicas]
    return paths[0] if len(paths) == 1 else ""


def test_a_replica_moves_to_the_other_folder(admin: Admin, solo: LocalKafka) -> None:
    topic = new_name()
    admin.create_topic(topic, 1, 1)
    write(solo.bootstrap_servers, topic, 10, size=1000)
    tp = TopicPartition(topic, 0)
    folders = admin.describe_log_dirs()[1]
    assert len(folders) == 2
    old = where(admin, tp)
    assert folders[old].replicas[tp].size > 10_000
    assert folders[old].error is None
    assert (folders[old].usable_bytes or 0) < (folders[old].total_bytes or 0)
    (new,) = set(folders) - {old}
    replica = Replica(topic, 0, 1)
    assert admin.alter_replica_log_dirs({replica: new}) == {replica: None}
    until(lambda: where(admin, tp) == new, "it has moved")
    assert read(solo.bootstrap_servers, topic, count=10) == list(range(10))
    with pytest.raises(PartialFailure, match="LOG_DIR_NOT_FOUND"):
        admin.alter_replica_log_dirs({replica: "/nowhere"})


def test_every_broker_tells_its_folders(admin3: Admin) -> None:
    assert sorted(admin3.describe_log_dirs()) == [1, 2, 3]
    assert sorted(admin3.describe_log_dirs([2])) == [2]


# --- features and quorum ---


def test_features_are_turned_down_and_up(admin: Admin) -> None:
    name = "share.version"
    found = admin.describe_features()
    assert found.finalized[name].highest == found.supported[name].highest == 1
    off = FeatureUpdate(0, "safe_downgrade")
    admin.update_features({name: off}, validate_only=True)
    assert name in admin.describe_features().finalized
    assert admin.update_features({name: off}) == {name: None}
    until(lambda: name not in admin.describe_features().finalized, "it is off")
    assert (admin.describe_features().epoch or 0) > (found.epoch or 0)
    admin.update_features({name: 1})
    until(lambda: name in admin.describe_features().finalized, "it is on again")
    with pytest.raises(PartialFailure, match="INVALID_UPDATE_VERSION"):
        admin.update_features({name: 99})


def test_the_quorum_is_described(admin3: Admin, trio: LocalKafka) -> None:
    found = admin3.describe_quorum()
    assert found.leader in trio.nodes
    assert {each.node for each in found.voters} == {1, 2, 3}
    assert found.high_watermark > 0
    assert found.endpoints[found.leader]["CONTROLLER"].startswith("127.0.0.1:")


# --- configs ---


def test_configs_change_one_by_one(admin: Admin) -> None:
    topic = new_name()
    admin.create_topic(topic, 1, 1, configs={"retention.ms": 1000, "cleanup.policy": "delete"})
    resource = ConfigResource("topic", topic)

    def values(*names: str) -> list[str | None]:
        found = admin.describe_configs([resource])[resource]
        return [found[name].value for name in names]

    def is_now(*expected: str) -> bool:
        return values("retention.ms", "cleanup.policy", "segment.ms") == list(expected)

    admin.alter_configs({resource: {"retention.ms": 5000}}, validate_only=True)
    assert is_now("1000", "delete", "604800000")
    compact = ConfigChange("append", "compact")
    admin.alter_configs({resource: {"segment.ms": 60_000, "cleanup.policy": compact}})
    until(lambda: is_now("1000", "delete,compact", "60000"), "two changed, one stayed")
    delete = ConfigChange("subtract", "delete")
    admin.alter_configs({resource: {"retention.ms": None, "cleanup.policy": delete}})
    until(lambda: is_now("604800000", "compact", "60000"), "one is the default again")


def value(admin: Admin, resource: ConfigResource, name: str) -> str | None:
    return admin.describe_configs([resource])[resource][name].value


def test_where_a_value_comes_from(admin: Admin) -> None:
    broker, every = ConfigResource("broker", "1"), ConfigResource("broker")
    name = "message.max.bytes"
    admin.alter_configs({every: {name: 2_000_000}, broker: {name: 3_000_000}})
    try:
        until(lambda: value(admin, broker, name) == "3000000", "it is set")
        found = admin.describe_configs([broker], include_synonyms=True, include_documentation=True)[
            broker
        ][name]
        assert (found.source, found.type) == ("dynamic_broker", "int")
        assert [(each.value, each.source) for each in found.synonyms] == [
            ("3000000", "dynamic_broker"),
            ("2000000", "dynamic_default_broker"),
            ("1048588", "default"),
        ]
        assert "largest record batch size" in (found.documentation or "")
        assert value(admin, every, name) == "2000000"
    finally:
        admin.alter_configs({every: {name: None}, broker: {name: None}})


def test_loggers_groups_and_metrics_have_configs(admin: Admin) -> None:
    loggers, group = ConfigResource("broker_logger", "1"), ConfigResource("group", new_name())
    metrics = ConfigResource("client_metrics", new_name())
    admin.alter_configs(
        {
            loggers: {"kafka.server.KafkaApis": "WARN"},
            group: {"consumer.session.timeout.ms": 50_000},
            metrics: {"interval.ms": 60_000},
        }
    )
    expected = {
        (loggers, "kafka.server.KafkaApis", "WARN"),
        (group, "consumer.session.timeout.ms", "50000"),
        (metrics, "interval.ms", "60000"),
    }

    def found() -> set[tuple[ConfigResource, str, str | None]]:
        told = admin.describe_configs([loggers, group, metrics])
        return {(each, name, told[each][name].value) for each, name, _ in expected}

    until(lambda: found() == expected, "all are told")


def test_a_bad_value_and_a_topic_that_is_not_there(admin: Admin) -> None:
    topic = new_name()
    admin.create_topic(topic, 1, 1)
    good, missing = ConfigResource("topic", topic), ConfigResource("topic", new_name())
    with pytest.raises(PartialFailure) as caught:
        admin.alter_configs({good: {"retention.ms": "soon"}, missing: {"retention.ms": 1}})
    assert isinstance(caught.value.failures[good], InvalidRequest)
    assert "Invalid value soon" in str(caught.value.failures[good])
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(caught.value.failures[missing])
    with pytest.raises(PartialFailure) as caught:
        admin.describe_configs([good, missing])
    assert list(caught.value.results) == [good]

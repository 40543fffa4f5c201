from __future__ import annotations

from uuid import UUID

import pytest

from kclient.cluster import ClusterView, TopicView
from kclient.errors import ConfigError
from kclient.group.subscription import Subscription
from kclient.protocol.messages.metadata import MetadataResponsePartition


def view(*names: str, internal: str = "", empty: str = "") -> ClusterView:
    found = {0: MetadataResponsePartition()}
    return ClusterView(
        topics={
            name: TopicView(name, UUID(int=0), {} if name == empty else found, 0, name == internal)
            for name in names
        }
    )


def test_names() -> None:
    subscription = Subscription.of(["a", "b", "a"], None)
    assert subscription.topics == {"a", "b"}
    assert subscription.is_active
    assert not subscription.update(view("a", "c"))
    assert not Subscription().is_active


def test_pattern_finds_topics_as_they_come_and_go() -> None:
    subscription = Subscription.of([], "^a.*")
    assert subscription.is_active
    assert subscription.topics == frozenset()
    assert subscription.update(view("a1", "a2", "b"))
    assert subscription.topics == {"a1", "a2"}
    assert not subscription.update(view("a2", "a1"))
    assert subscription.update(view("a2"))


def test_pattern_leaves_out_internal_and_unusable_topics() -> None:
    subscription = Subscription.of([], ".*")
    subscription.update(view("a", "__consumer_offsets", "b", internal="__consumer_offsets"))
    assert subscription.topics == {"a", "b"}
    subscription.update(view("a", "b", empty="b"))
    assert subscription.topics == {"a"}


def test_bad_pattern() -> None:
    with pytest.raises(ConfigError, match="no regular expression"):
        Subscription.of([], "(")

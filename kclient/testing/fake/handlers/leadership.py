"""The new leader, told along with the error that the old one answers with (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from kclient.protocol.messages import fetch, produce
from kclient.testing.fake.call import Call
from kclient.testing.fake.codes import Code
from kclient.testing.fake.topics import NO_LEADER, Partition, Topic

E = TypeVar("E", fetch.NodeEndpoint, produce.NodeEndpoint)
_LEADER_ERRORS = (Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH)


def new_leader(topic: Topic | None, index: int, code: int) -> Partition | None:
    """The partition whose leader an answer with ``code`` should name."""
    if code not in _LEADER_ERRORS or topic is None or not 0 <= index < len(topic.partitions):
        return None
    partition = topic.partitions[index]
    return partition if partition.leader != NO_LEADER else None


def endpoints(call: Call, leaders: Iterable[int], of: type[E]) -> list[E]:
    """The addresses of the leaders that an answer names."""
    nodes = [call.state.node(leader) for leader in sorted(set(leaders) - {NO_LEADER})]
    return [of(node_id=node.id, host=node.host, port=node.port, rack=node.rack) for node in nodes]

"""The cluster described, and what its brokers speak."""

from __future__ import annotations

from kclient import Admin
from kclient.protocol import APIS
from kclient.testing import LocalKafka


def test_the_cluster_is_described(admin3: Admin, trio: LocalKafka) -> None:
    found = admin3.describe_cluster(include_authorized_operations=True)
    assert found.cluster_id == trio.cluster_id
    assert found.controller in trio.nodes
    assert {node: f"{each.host}:{each.port}" for node, each in found.brokers.items()} == {
        node: trio.address(node) for node in trio.nodes
    }
    assert found.authorized_operations is not None
    assert "alter_configs" in found.authorized_operations
    assert admin3.describe_cluster().authorized_operations is None


def test_every_broker_tells_what_it_speaks(admin3: Admin) -> None:
    found = admin3.api_versions()
    assert sorted(found) == [1, 2, 3]
    assert found[1]["ApiVersions"] == (0, APIS[18].versions[1])
    assert found[1]["Fetch"].highest == 18

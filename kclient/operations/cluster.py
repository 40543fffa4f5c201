"""The cluster itself: its brokers, its controller, and what each broker speaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kclient.cluster.call import Call
from kclient.operations.given import need, operations_of
from kclient.operations.many import check, reading
from kclient.protocol import APIS
from kclient.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kclient.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse


@dataclass(frozen=True)
class BrokerDescription:
    """A broker. One that is ``is_fenced`` is known to the cluster but does not serve."""

    node: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


@dataclass(frozen=True)
class ClusterDescription:
    """The cluster; ``controller`` is a node id, None while there is none.

    On KRaft the controller that clients see is a broker that passes requests on to it.
    """

    cluster_id: str | None
    controller: int | None
    brokers: Mapping[int, BrokerDescription]
    authorized_operations: frozenset[str] | None = None


class VersionRange(NamedTuple):
    """The lowest and highest version of an API that a broker speaks."""

    lowest: int
    highest: int


def describe(*, rights: bool = False, fenced: bool = False) -> Call[ClusterDescription]:
    """The cluster (KIP-700, since Kafka 2.8); ``fenced`` brokers too since 4.0."""

    def build(version: int) -> DescribeClusterRequest:
        if fenced:
            need(version, 2, "list fenced brokers", "4.0")
        return DescribeClusterRequest(
            include_cluster_authorized_operations=rights, include_fenced_brokers=fenced
        )

    def read(answer: DescribeClusterResponse) -> ClusterDescription:
        check(answer.error_code, "the cluster was not described", answer.error_message)
        brokers = {
            row.broker_id: BrokerDescription(
                row.broker_id, row.host, row.port, row.rack, row.is_fenced
            )
            for row in answer.brokers
        }
        controller = answer.controller_id if answer.controller_id >= 0 else None
        rights = operations_of(answer.cluster_authorized_operations)
        return ClusterDescription(answer.cluster_id, controller, brokers, rights)

    return Call(DescribeClusterRequest, build, reading(DescribeClusterResponse, read))


def describe_old(*, rights: bool = False) -> Call[ClusterDescription]:
    """The cluster, as its metadata tells."""

    def build(version: int) -> MetadataRequest:
        if rights:
            need(version, 8, "tell what this user may do", "2.3")
        # In v0 an empty list asks for all topics; there is no way to ask for none.
        return MetadataRequest(
            topics=[], allow_auto_topic_creation=True, include_cluster_authorized_operations=rights
        )

    def read(answer: MetadataResponse) -> ClusterDescription:
        brokers = {
            row.node_id: BrokerDescription(row.node_id, row.host, row.port, row.rack)
            for row in answer.brokers
        }
        controller = answer.controller_id if answer.controller_id >= 0 else None
        rights = operations_of(answer.cluster_authorized_operations)
        return ClusterDescription(answer.cluster_id, controller, brokers, rights)

    return Call(MetadataRequest, build, reading(MetadataResponse, read))


def api_versions() -> Call[dict[str, VersionRange]]:
    """What one broker speaks, by the name of the API; those that are new have their number."""

    def read(answer: ApiVersionsResponse) -> dict[str, VersionRange]:
        check(answer.error_code, "the broker did not tell what it speaks")
        return {
            APIS[row.api_key].name if row.api_key in APIS else f"unknown_{row.api_key}": (
                VersionRange(row.min_version, row.max_version)
            )
            for row in answer.api_keys
        }

    return Call(
        ApiVersionsRequest,
        lambda version: ApiVersionsRequest(
            client_software_name="kclient", client_software_version="admin"
        ),
        reading(ApiVersionsResponse, read),
    )

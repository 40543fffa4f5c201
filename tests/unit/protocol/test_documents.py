"""The examples of the documents the project was created from."""

from __future__ import annotations

import struct

import pytest

from kclient.errors import ProtocolError, UnsupportedVersion
from kclient.protocol import APIS, request_header_version, response_header_version
from kclient.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kclient.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kclient.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kclient.protocol.messages.headers import RequestHeader
from kclient.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kclient.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE_V0 = bytes.fromhex(
    "0000004e 0000 0000 00000001 0003 666f6f 0001 000005dc 00000001 0004 74657374"
    "00000001 00000000 00000025"
    "0000000000000000 00000019 73acf77c 00 00 ffffffff 0000000b 68656c6c6f20776f726c64"
)
MESSAGE_SET = PRODUCE_V0[-37:]


def test_produce_v0_of_seed_000_byte_for_byte() -> None:
    header = RequestHeader(
        request_api_key=0, request_api_version=0, correlation_id=1, client_id="foo"
    )
    partition = PartitionProduceData(index=0, records=MESSAGE_SET)
    topic = TopicProduceData(name="test", partition_data=[partition])
    request = ProduceRequest(acks=1, timeout_ms=1500, topic_data=[topic])
    frame = header.encode(request_header_version(0, 0)) + request.encode(0)
    assert struct.pack(">i", len(frame)) + frame == PRODUCE_V0


def test_metadata_v0_of_seed_003() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    assert request.encode(0) == bytes.fromhex("00000001 0001 74")


def test_group_coordinator_v0_of_seed_003() -> None:
    assert FindCoordinatorRequest(key="g").encode(0) == bytes.fromhex("0001 67")
    answer = FindCoordinatorResponse(error_code=0, node_id=7, host="h", port=9092)
    wire = bytes.fromhex("0000 00000007 0001 68 00002384")
    assert answer.encode(0) == wire
    assert FindCoordinatorResponse.decode(wire, 0) == answer


def test_api_versions_v0_of_seed_003() -> None:
    wire = bytes.fromhex("0000 00000001 0012 0000 0003")
    answer = ApiVersionsResponse.decode(wire, 0)
    assert answer.api_keys == [ApiVersion(api_key=18, min_version=0, max_version=3)]
    assert answer.encode(0) == wire


def test_create_topics_v7_with_header_v2_of_seed_004() -> None:
    header = RequestHeader(
        request_api_key=19, request_api_version=7, correlation_id=5, client_id="c"
    )
    topic = CreatableTopic(name="t", num_partitions=3, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=True)
    assert request_header_version(19, 7) == 2
    assert header.encode(2) == bytes.fromhex("0013 0007 00000005 0001 63 00")
    assert request.encode(7) == bytes.fromhex("02 02 74 00000003 0001 01 01 00 000003e8 01 00")


def test_header_versions() -> None:
    assert request_header_version(7, 0) == 0
    assert response_header_version(18, 4) == 0
    assert response_header_version(3, 9) == 1
    with pytest.raises(UnsupportedVersion, match="API key 999"):
        request_header_version(999, 0)


def test_api_table_of_seed_002() -> None:
    named = {0: "Produce", 4: "LeaderAndIsr", 10: "FindCoordinator", 22: "InitProducerId"}
    assert {key: APIS[key].name for key in named} == named


def test_a_field_the_version_lacks_is_refused_unless_it_is_default() -> None:
    with pytest.raises(UnsupportedVersion, match="transactional_id"):
        ProduceRequest(transactional_id="t").encode(0)


def test_a_value_that_does_not_fit_is_named() -> None:
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=2**31)])
    with pytest.raises(ProtocolError, match=r"topic_data\[0\]\.partition_data\[0\]\.index"):
        ProduceRequest(topic_data=[topic]).encode(3)


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(UnsupportedVersion, match="v0 to v13"):
        ProduceRequest().encode(99)

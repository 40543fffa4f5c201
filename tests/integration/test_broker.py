"""What any broker of today must answer, in whichever lane the run has found."""

from __future__ import annotations

import pytest

from kclient.protocol import APIS
from kclient.records import encode
from kclient.types import ProducerRecord

from .exchange import (
    api_versions,
    create_topic,
    fetch,
    leader_address,
    metadata,
    new_name,
    now_ms,
    produce,
)

# `-m container` picks these: they are what make test-container runs, and any other lane too.
pytestmark = pytest.mark.container

CODECS = (None, "gzip", "snappy", "lz4", "zstd")


def test_api_versions_lists_the_client_apis(bootstrap_servers: str) -> None:
    answer = api_versions(bootstrap_servers, 4)
    assert answer.error_code == 0
    spoken = {api.api_key: range(api.min_version, api.max_version + 1) for api in answer.api_keys}
    for name in ("Produce", "Fetch", "Metadata", "CreateTopics", "ApiVersions"):
        (api,) = (each for each in APIS.values() if each.name == name)
        assert api.stable in spoken[api.key], name


def test_metadata_names_the_address_that_was_asked(bootstrap_servers: str) -> None:
    answer = metadata(bootstrap_servers, 13)
    assert answer.error_code == 0
    assert answer.cluster_id
    listed = {f"{broker.host}:{broker.port}" for broker in answer.brokers}
    assert set(bootstrap_servers.split(",")) <= listed


def test_a_new_topic_is_listed_with_its_id(bootstrap_servers: str) -> None:
    topic = new_name()
    topic_id = create_topic(bootstrap_servers, topic)
    (found,) = metadata(bootstrap_servers, 13, [topic]).topics
    assert (found.error_code, found.name, found.topic_id) == (0, topic, topic_id)
    assert [partition.partition_index for partition in found.partitions] == [0]


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_written(bootstrap_servers: str, codec: str | None) -> None:
    topic = new_name()
    topic_id = create_topic(bootstrap_servers, topic)
    address, now = leader_address(bootstrap_servers, topic), now_ms()
    sent = [
        ProducerRecord(topic, b"value", b"key", [("h", b"1"), ("null", None)], timestamp_ms=now),
        ProducerRecord(topic, None, b"tombstone", timestamp_ms=now + 1),
        ProducerRecord(topic, b"x" * 10_000, None, timestamp_ms=now + 2),
    ]
    written = produce(address, topic, encode(sent, compression=codec), 13, topic_id=topic_id)
    assert (written.error_code, written.base_offset) == (0, 0)
    found = fetch(address, topic, 0, 17, topic_id=topic_id)
    assert [record.offset for record in found] == [0, 1, 2]
    assert [(one.key, one.value, list(one.headers), one.timestamp) for one in found] == [
        (one.key, one.value, list(one.headers), one.timestamp_ms) for one in sent
    ]


def test_a_damaged_batch_is_refused(bootstrap_servers: str) -> None:
    topic = new_name()
    topic_id = create_topic(bootstrap_servers, topic)
    batch = bytearray(encode([ProducerRecord(topic, b"value", timestamp_ms=now_ms())]))
    batch[-2] ^= 1
    address = leader_address(bootstrap_servers, topic)
    refused = produce(address, topic, bytes(batch), 13, topic_id=topic_id)
    assert refused.error_code == 2  # CORRUPT_MESSAGE

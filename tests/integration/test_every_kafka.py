"""Every Kafka from 0.8.0 to 4.3.1: what it says about itself, and every format it stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import pytest

from kclient.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kclient.protocol.since import FIRST_KAFKA
from kclient.records import encode
from kclient.testing import LocalKafka
from kclient.testing.releases import RELEASES, parse_version
from kclient.types import ProducerRecord

from .exchange import Wire, api_versions, fetch, leader, metadata, new_name, now_ms, produce, until

pytestmark = pytest.mark.every_kafka

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
UNSUPPORTED_VERSION = 35
CODECS = (None, "gzip", "snappy", "lz4", "zstd")


class Run(NamedTuple):
    """A version of Kafka, and how it is run."""

    version: str
    zookeeper: bool

    def __str__(self) -> str:
        return self.version + ("-zookeeper" if self.zookeeper else "")


RUNS = [*(Run(release.version, not release.kraft) for release in RELEASES), Run("3.9.1", True)]


class Broker(NamedTuple):
    """A broker that runs, and the version of Kafka it is of."""

    address: str
    number: tuple[int, ...]

    def speaks(self, api_key: int) -> tuple[int, int]:
        """The lowest and highest version of an API; from memory where the broker cannot say."""
        if self.number < (0, 10):
            newest = 1 if api_key in (PRODUCE, FETCH) and self.number >= (0, 9) else 0
            return 0, newest
        (found,) = (
            (each.min_version, each.max_version)
            for each in api_versions(self.address, 0).api_keys
            if each.api_key == api_key
        )
        return found


@pytest.fixture(scope="module", params=RUNS, ids=str)
def broker(
    request: pytest.FixtureRequest, local_kafka_factory: Callable[..., LocalKafka]
) -> Iterator[Broker]:
    run: Run = request.param
    kafka = local_kafka_factory(version=run.version, zookeeper=run.zookeeper)
    yield Broker(kafka.bootstrap_servers, parse_version(run.version))
    kafka.close(keep_logs=request.session.testsfailed > 0)


def test_api_versions_is_answered_since_0_10(broker: Broker) -> None:
    request = ApiVersionsRequest()
    with Wire(broker.address) as wire:
        wire.send(request, 0)
        if broker.number < (0, 9):
            with pytest.raises(ConnectionResetError):
                wire.receive(ApiVersionsResponse, 0, 1)
        elif broker.number < (0, 10):
            # Never answered, but what comes behind it is: so a client need not wait.
            wire.send(MetadataRequest(topics=[]), 0)
            assert wire.receive(MetadataResponse, 0, 2).brokers
        else:
            answer = wire.receive(ApiVersionsResponse, 0, 1)
            assert answer.error_code == 0
            assert {PRODUCE, FETCH, METADATA, API_VERSIONS} <= {
                each.api_key for each in answer.api_keys
            }


def test_the_table_of_first_kafkas_is_right(broker: Broker) -> None:
    if broker.number < (0, 10):
        pytest.skip("has no ApiVersions")
    spoken = {each.api_key for each in api_versions(broker.address, 0).api_keys}
    due = {key for key, since in FIRST_KAFKA.items() if parse_version(since) <= broker.number}
    assert spoken & set(FIRST_KAFKA) <= due
    with_zookeeper, with_kraft, with_a_plugin = {4, 5, 6, 7}, {55, 64, 74, 75, 80, 81}, {71, 72}
    assert due - spoken <= with_zookeeper | with_kraft | with_a_plugin


def test_api_versions_too_new_is_refused_in_version_0(broker: Broker) -> None:
    if broker.number < (0, 10):
        pytest.skip("has no ApiVersions")
    request = ApiVersionsRequest(client_software_name="kclient", client_software_version="0")
    with Wire(broker.address) as wire:
        wire.send(request, 4, says=99)
        answer = wire.receive(ApiVersionsResponse, 0, 1)
    assert answer.error_code == UNSUPPORTED_VERSION
    listed = [(each.api_key, each.max_version) for each in answer.api_keys]
    if broker.number < (2, 4):
        assert listed == []
    else:
        assert listed == [(API_VERSIONS, 4 if broker.number >= (3, 9) else 3)]


def test_metadata_v0_is_answered_by_all(broker: Broker) -> None:
    topic = new_name()
    until(lambda: leader(broker.address, topic, 0) == 1, "a topic is made by asking for it")
    listed = metadata(broker.address, 0).brokers
    assert [f"{each.host}:{each.port}" for each in listed] == [broker.address]


def test_records_come_back_in_each_format(broker: Broker) -> None:
    # Not parameters: pytest would start a broker anew for each, or list 93 skipped ones.
    formats = [case for case in product((0, 1, 2), CODECS) if takes(broker.number, *case)]
    assert formats
    for magic, codec in formats:
        check_round_trip(broker, magic, codec)


def check_round_trip(broker: Broker, magic: int, codec: str | None) -> None:
    """Write a batch twice, and read it from the second record on."""
    topic = new_name()
    until(lambda: leader(broker.address, topic, 0) == 1, "the topic has a leader")
    newest = broker.speaks(METADATA)[1]
    (found,) = metadata(broker.address, newest, [topic]).topics
    sent = records(topic, magic)
    batch = encode(sent, magic=magic, compression=codec)
    version = version_for(broker, PRODUCE, magic)
    for base_offset in (0, 3):  # the broker, not the writer, says where a batch lands
        written = produce(broker.address, topic, batch, version, topic_id=found.topic_id)
        assert (written.error_code, written.base_offset) == (0, base_offset), (magic, codec)
    version = version_for(broker, FETCH, magic)
    got = fetch(broker.address, topic, 1, version, topic_id=found.topic_id)
    # 2.0 and later cut what they convert to an old format at the size it has in theirs
    # (KIP-283): whatever is missing then comes by the next fetch, as for any consumer.
    if magic < native_magic(broker.number) and got[-1].offset == 2:
        got += fetch(broker.address, topic, 3, version, topic_id=found.topic_id)
    assert [one.offset for one in got] == [1, 2, 3, 4, 5], (magic, codec)
    assert [(one.key, one.value, list(one.headers), one.timestamp) for one in got] == [
        (one.key, one.value, list(one.headers), -1 if magic == 0 else one.timestamp_ms)
        for one in [*sent[1:], *sent]
    ]


def takes(number: tuple[int, ...], magic: int, codec: str | None) -> bool:
    """Whether a version stores, or converts, this message format and codec."""
    if magic > native_magic(number) or (magic < 2 and number >= (4,)):
        return False
    if codec == "lz4":
        return number >= (0, 8, 2)
    return codec != "zstd" or (magic == 2 and number >= (2, 1))


def native_magic(number: tuple[int, ...]) -> int:
    """The newest message format of a version."""
    if number < (0, 10):
        return 0
    return 1 if number < (0, 11) else 2


def version_for(broker: Broker, api_key: int, magic: int) -> int:
    """The highest version of Produce or Fetch that carries this message format."""
    limits = {PRODUCE: (1, 2, 13), FETCH: (1, 3, 17)}
    return min(limits[api_key][magic], broker.speaks(api_key)[1])


def records(topic: str, magic: int) -> list[ProducerRecord]:
    headers = [("h", b"1"), ("null", None)] if magic == 2 else []
    now = now_ms()
    return [
        ProducerRecord(topic, b"value", b"key", headers, timestamp_ms=now),
        ProducerRecord(topic, None, b"tombstone", timestamp_ms=now + 1),
        ProducerRecord(topic, b"x" * 2_000, None, timestamp_ms=now + 2),
    ]

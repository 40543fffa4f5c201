"""Producing to old Kafkas, which the client finds out by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kclient import Producer
from kclient.errors import UnsupportedVersion
from kclient.testing import LocalKafka
from kclient.testing.releases import parse_version

from ..exchange import new_name
from .reading import by_key, read_all

DEFAULT = "0.9.0.1"
OLD = ("0.8.2.2", "0.10.2.2", "0.11.0.3", "2.0.1")
VERSIONS = [DEFAULT, *(pytest.param(each, marks=pytest.mark.every_kafka) for each in OLD)]


@pytest.fixture(scope="module", params=VERSIONS)
def kafka(
    request: pytest.FixtureRequest, local_kafka_factory: Callable[..., LocalKafka]
) -> Iterator[LocalKafka]:
    broker = local_kafka_factory(version=request.param)
    yield broker
    broker.close(keep_logs=request.session.testsfailed > 0)


def reader_options(kafka: LocalKafka) -> dict[str, Any]:
    """librdkafka has to be told what it talks to when that cannot say."""
    if parse_version(kafka.version) >= (0, 10):
        return {}
    return {"api.version.request": False, "broker.version.fallback": kafka.version}


def test_every_way_to_send(kafka: LocalKafka) -> None:
    topic, number = new_name(), parse_version(kafka.version)
    codecs = [None, "gzip", "snappy", "lz4"]
    with Producer(kafka.bootstrap_servers) as producer:
        producer.send(topic, b"made by asking")
    expected: dict[bytes | None, list[bytes | None]] = {None: [b"made by asking"]}
    for codec in codecs:
        kind = str(codec).encode()
        with Producer(kafka.bootstrap_servers, compression_type=codec) as producer:
            offset = producer.send(topic, b"send", key=kind).offset
            future = producer.submit(topic, None, key=kind)
            report = producer.send_many(topic, [(kind, b"%d" % n) for n in range(500)])
            assert future.result(10).offset == offset + 1
        assert report.count == 500
        expected[kind] = [b"send", None, *(b"%d" % n for n in range(500))]
    found = read_all(kafka.bootstrap_servers, topic, **reader_options(kafka))
    assert by_key(found) == expected
    assert all(each.timestamp > 0 for each in found) is (number >= (0, 10))


def test_what_it_cannot_do_is_said(kafka: LocalKafka) -> None:
    topic, number = new_name(), parse_version(kafka.version)
    with Producer(kafka.bootstrap_servers, compression_type="zstd") as producer:
        with pytest.raises(UnsupportedVersion, match="zstd"):
            producer.send(topic, b"")
    if number < (0, 11):
        with Producer(kafka.bootstrap_servers) as producer:
            with pytest.raises(UnsupportedVersion, match="headers"):
                producer.send(topic, b"", headers=[("h", b"")])
        with Producer(kafka.bootstrap_servers, transactional_id="t") as producer:
            with pytest.raises(UnsupportedVersion):
                producer.begin_transaction()


def test_transactions_since_0_11(kafka: LocalKafka) -> None:
    if parse_version(kafka.version) < (0, 11):
        pytest.skip("has no transactions")
    topic = new_name()
    with Producer(kafka.bootstrap_servers, transactional_id="t") as producer:
        with producer.transaction():
            producer.send(topic, b"kept", headers=[("h", b"1")])
        producer.begin_transaction()
        producer.send(topic, b"dropped")
        producer.abort_transaction()
        with producer.transaction():
            producer.send_many(topic, [b"kept too"])
    found = read_all(kafka.bootstrap_servers, topic)
    assert [each.value for each in found] == [b"kept", b"kept too"]
    assert found[0].headers == [("h", b"1")]

"""Records, transactions and offsets between kclient and the other clients, on a real broker."""

from __future__ import annotations

import pytest

from kclient import Consumer, Producer, ProducerRecord, Record, TopicPartition

from .exchange import create_topic, new_name
from .neighbours import PEERS, Item, Peer, Transaction, poll_until

CODECS = (None, "gzip", "snappy", "lz4", "zstd")
ITEMS = (
    Item(b"value", b"key"),
    Item(b"no key"),
    Item(None, b"tombstone"),
    Item(b"headers", b"key", (("one", b"1"), ("two", b"2"), ("two", b"3"))),
    Item(b"long " * 1_000, b"key"),
)
NULL_HEADER = Item(b"null header", None, (("null", None),))
TRANSACTIONS = (
    Transaction([b"a", b"b"], commit=True),
    Transaction([b"dropped"], commit=False),
    Transaction([b"c"], commit=True),
    Transaction([b"dropped", b"too"], commit=False),
    Transaction([b"d"], commit=True),
)
KEPT = [b"a", b"b", b"c", b"d"]

pytestmark = pytest.mark.parametrize("peer", PEERS, ids=lambda peer: type(peer).__name__)


@pytest.fixture
def topic(bootstrap_servers: str) -> str:
    name = new_name()
    create_topic(bootstrap_servers, name)
    return name


def ours(servers: str, topic: str, count: int, **options: str) -> list[Record]:
    """What kclient reads from the beginning."""
    found: list[Record] = []
    with Consumer(servers, auto_offset_reset="earliest", **options) as consumer:  # type: ignore[arg-type]
        consumer.assign([TopicPartition(topic, 0)])
        poll_until(lambda: len(found) >= count, lambda: found.extend(consumer.poll(0.5)))
    return found


def test_they_read_what_we_write(bootstrap_servers: str, topic: str, peer: Peer) -> None:
    items = [*ITEMS, NULL_HEADER]
    for codec in CODECS:
        with Producer(bootstrap_servers, compression_type=codec) as producer:
            report = producer.send_many(
                topic, [ProducerRecord("", each.value, each.key, each.headers) for each in items]
            )
            assert report.count == len(items)
    count = len(items) * len(CODECS)
    assert peer.read(bootstrap_servers, topic, count) == items * len(CODECS)


def test_we_read_what_they_write(bootstrap_servers: str, topic: str, peer: Peer) -> None:
    items = [*ITEMS, *([NULL_HEADER] if peer.writes_null_headers else [])]
    for codec in CODECS:
        peer.write(bootstrap_servers, topic, items, codec)
    got = ours(bootstrap_servers, topic, len(items) * len(CODECS))
    assert [Item(one.value, one.key, tuple(one.headers)) for one in got] == items * len(CODECS)


def test_they_see_what_we_committed(bootstrap_servers: str, topic: str, peer: Peer) -> None:
    with Producer(bootstrap_servers, transactional_id=topic) as producer:
        for each in TRANSACTIONS:
            producer.begin_transaction()
            for value in each.values:
                producer.send(topic, value)
            if each.commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    got = peer.read(bootstrap_servers, topic, len(KEPT), committed=True)
    assert [one.value for one in got] == KEPT


def test_we_see_what_they_committed(bootstrap_servers: str, topic: str, peer: Peer) -> None:
    peer.write_transactions(bootstrap_servers, topic, TRANSACTIONS)
    got = ours(bootstrap_servers, topic, len(KEPT), isolation_level="read_committed")
    assert [one.value for one in got] == KEPT
    everything = [value for each in TRANSACTIONS for value in each.values]
    got = ours(bootstrap_servers, topic, len(everything))
    assert [one.value for one in got] == everything


def test_each_goes_on_where_the_other_left(bootstrap_servers: str, topic: str, peer: Peer) -> None:
    group = new_name("group")
    values = [b"%d" % number for number in range(9)]
    with Producer(bootstrap_servers) as producer:
        producer.send_many(topic, values)
    assert peer.read_on(bootstrap_servers, topic, group, 3) == values[:3]
    with Consumer(bootstrap_servers, group_id=group, max_poll_records=3) as consumer:
        consumer.subscribe([topic])
        found: list[Record] = []
        poll_until(lambda: bool(found), lambda: found.extend(consumer.poll(0.5)))
        consumer.commit()
    assert [one.value for one in found] == values[3:6]
    assert peer.read_on(bootstrap_servers, topic, group, 3) == values[6:]

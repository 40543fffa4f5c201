"""The client over a real socket, against a broker that does not share its code."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import pytest

from kclient.errors import (
    BrokerError,
    ClientClosedError,
    ConfigError,
    CorruptRecord,
    OffsetOutOfRange,
    PartialFailure,
)
from kclient.kafka07 import (
    EARLIEST,
    LATEST,
    Client,
    Fetch,
    FetchSizeTooSmall,
    Kafka07Error,
    Kafka07OffsetOutOfRange,
    Message,
    Produce,
)

from .memory_broker import MemoryBroker, wait_until
from .test_wire_format import HELLO_0, HELLO_1, JAVA_GZIP, JAVA_SNAPPY, WORLD_1


def payloads(messages: Iterable[Message]) -> list[bytes]:
    return [message.payload for message in messages]


def test_produce_then_fetch(broker: MemoryBroker, client: Client) -> None:
    client.produce("orders", 1, [b"hello", b"world"])
    found = client.fetch("orders", 1, 0)
    assert list(found) == [Message(b"hello", 0, 15), Message(b"world", 15, 30)]
    assert broker.logs["orders", 1].data == HELLO_1 + WORLD_1
    assert payloads(client.fetch("orders", 1, 15)) == [b"world"]
    assert not client.fetch("orders", 1, 30)
    assert broker.connections == 1


@pytest.mark.parametrize("compression", [None, "gzip", "snappy"])
def test_compression_over_the_wire(client: Client, compression: str | None) -> None:
    sent = [b"%d " % number * 50 for number in range(100)]
    client.produce("orders", 0, sent, compression=compression)
    found = client.fetch("orders", 0, 0)
    assert payloads(found) == sent
    assert {message.compression for message in found} == {compression}


def test_mixed_log(broker: MemoryBroker, client: Client) -> None:
    broker.append("old", 0, HELLO_0 + JAVA_GZIP + JAVA_SNAPPY + WORLD_1)
    found = client.fetch("old", 0, 0)
    assert payloads(found) == [b"hello"] + [b"hello", b"world"] * 2 + [b"world"]
    assert [message.magic for message in found] == [0, 1, 1, 1, 1, 1]
    inside = found[2]
    assert payloads(client.fetch("old", 0, inside.offset))[:2] == [b"hello", b"world"]
    assert payloads(client.fetch("old", 0, inside.next_offset))[2:] == [b"world"]


def test_produce_magic_0(broker: MemoryBroker, client: Client) -> None:
    client.produce("old", 0, [b"hello"], magic=0)
    assert payloads(client.fetch("old", 0, 0)) == [b"hello"]
    assert broker.logs["old", 0].data == HELLO_0


def test_multiproduce_then_multifetch(client: Client) -> None:
    client.multiproduce(
        [Produce("a", 0, [b"1", b"2"]), Produce("b", 1, (text for text in [b"3"]), "gzip")]
    )
    wanted = [Fetch("b", 1, 0), Fetch("a", 0, 0), Fetch("no such topic", 0, 0)]
    assert [payloads(found) for found in client.multifetch(wanted)] == [[b"3"], [b"1", b"2"], []]


def test_same_fetch_twice_in_a_multifetch(client: Client) -> None:
    client.produce("a", 0, [b"1"])
    assert [payloads(found) for found in client.multifetch([Fetch("a", 0, 0)] * 2)] == [[b"1"]] * 2


def test_multifetch_in_part(broker: MemoryBroker, client: Client) -> None:
    good, gone, small = Fetch("a", 0, 0), Fetch("a", 0, 99), Fetch("a", 0, 0, 7)
    damaged = Fetch("b", 0, 0)
    broker.append("a", 0, HELLO_1)
    broker.append("b", 0, HELLO_1[:-1] + b"x")
    with pytest.raises(PartialFailure, match="3 of 4 fetches failed") as caught:
        client.multifetch([good, gone, small, damaged])
    assert payloads(caught.value.results[good]) == [b"hello"]
    kinds = {fetch: type(error) for fetch, error in caught.value.failures.items()}
    assert kinds == {
        gone: Kafka07OffsetOutOfRange,
        small: FetchSizeTooSmall,
        damaged: CorruptRecord,
    }
    text = str(caught.value.failures[gone])
    assert text.startswith(f"fetch of a/0 from offset 99 at 127.0.0.1:{broker.port}: ")
    assert payloads(client.fetch("a", 0, 0)) == [b"hello"]
    assert broker.connections == 1


def test_offsets(broker: MemoryBroker, client: Client) -> None:
    client.produce("orders", 0, [b"hello"] * 4)
    assert client.offsets("orders", 0) == [60]
    broker.expire("orders", 0, 15)
    broker.roll("orders", 0, 5000)
    assert client.offsets("orders", 0, EARLIEST) == [15]
    assert client.offsets("orders", 0, LATEST, 10) == [60, 60, 15]
    assert client.offsets("orders", 0, 6000, 10) == [60, 15]
    assert client.offsets("orders", 0, 4000, 10) == [15]
    assert client.offsets("orders", 0, 0, 10) == []


def test_offset_out_of_range(broker: MemoryBroker, client: Client) -> None:
    client.produce("orders", 0, [b"hello"])
    with pytest.raises(OffsetOutOfRange, match=r"offset 16 at .*OFFSET_OUT_OF_RANGE") as caught:
        client.fetch("orders", 0, 16)
    assert isinstance(caught.value, Kafka07Error)
    assert (caught.value.code, caught.value.name) == (1, "OFFSET_OUT_OF_RANGE")
    assert client.offsets("orders", 0) == [15]
    assert broker.connections == 1


def test_wrong_partition_is_not_given_its_modern_name(client: Client) -> None:
    with pytest.raises(BrokerError, match="WRONG_PARTITION") as caught:
        client.fetch("orders", 99, 0)
    assert type(caught.value) is Kafka07Error
    assert (caught.value.code, caught.value.name) == (3, "WRONG_PARTITION")
    assert (caught.value.retriable, caught.value.stale_metadata) == (False, False)


def test_message_larger_than_max_size(client: Client) -> None:
    client.produce("orders", 0, [b"x" * 1000])
    with pytest.raises(FetchSizeTooSmall, match=r"at least 1010 bytes.*raise max_size") as caught:
        client.fetch("orders", 0, 0, max_size=1009)
    needed = vars(caught.value)["needed"]
    assert payloads(client.fetch("orders", 0, 0, max_size=needed)) == [b"x" * 1000]


def test_consume_to_the_end(broker: MemoryBroker, client: Client) -> None:
    sent = [b"%d" % number for number in range(500)]
    client.produce("orders", 0, sent[:300])
    client.produce("orders", 0, sent[300:], compression="gzip")
    assert payloads(client.consume("orders", 0, max_size=4000)) == sent
    fetches = [request for request in broker.requests if request[:2] == b"\0\1"]
    assert len(fetches) == 3


def test_consume_from_the_earliest_and_from_an_offset(broker: MemoryBroker, client: Client) -> None:
    broker.append("orders", 0, HELLO_1 * 3)
    broker.expire("orders", 0, 15)
    assert [message.offset for message in client.consume("orders", 0)] == [15, 30]
    assert [message.offset for message in client.consume("orders", 0, 30)] == [30]
    assert list(client.consume("no such topic", 0)) == []


def test_consume_does_not_spin_on_a_large_message(client: Client) -> None:
    client.produce("orders", 0, [b"small", b"x" * 1000])
    messages = client.consume("orders", 0, max_size=100)
    assert next(messages).payload == b"small"
    with pytest.raises(FetchSizeTooSmall):
        next(messages)


def test_consume_passes_an_empty_wrapper(broker: MemoryBroker, client: Client) -> None:
    empty = bytes.fromhex(
        "0000001a 01 01 45378550"  # LENGTH, MAGIC, COMPRESSION: gzip, CHECKSUM
        "1f8b08000000000000ff 0300 00000000 00000000"  # gzip of nothing
    )
    broker.append("orders", 0, empty + HELLO_1)
    assert payloads(client.consume("orders", 0, max_size=len(empty))) == [b"hello"]


def test_damaged_log(broker: MemoryBroker, client: Client) -> None:
    broker.append("orders", 0, HELLO_1 + HELLO_1[:-1] + b"x" + WORLD_1)
    with pytest.raises(CorruptRecord, match=r"fetch of orders/0 .* message at offset 15") as caught:
        client.fetch("orders", 0, 0)
    resume = vars(caught.value)["next_offset"]
    assert payloads(client.fetch("orders", 0, resume)) == [b"world"]
    assert broker.connections == 1


def test_decompression_limit_of_the_client(broker: MemoryBroker) -> None:
    with Client("127.0.0.1", broker.port, max_decompressed=1000) as client:
        client.produce("orders", 0, [bytes(2000)], compression="gzip")
        with pytest.raises(CorruptRecord, match="limit of 1000 bytes"):
            client.fetch("orders", 0, 0)


def test_closed_client(broker: MemoryBroker) -> None:
    with Client("127.0.0.1", broker.port) as client:
        client.produce("orders", 0, [b"hello"])
    client.close()
    assert repr(client) == f"<kclient.kafka07.Client 127.0.0.1:{broker.port} closed>"
    for call in (
        lambda: client.produce("orders", 0, [b"x"]),
        lambda: client.multiproduce([]),
        lambda: client.fetch("orders", 0, 0),
        lambda: client.multifetch([]),
        lambda: client.offsets("orders", 0),
        lambda: next(client.consume("orders", 0)),
    ):
        with pytest.raises(ClientClosedError):
            call()


def test_closing_delivers_what_was_produced(broker: MemoryBroker) -> None:
    big = b"x" * 900_000
    with Client("127.0.0.1", broker.port) as client:
        for _ in range(5):
            client.produce("orders", 0, [big])
    wait_until(lambda: broker.ended == 1)
    assert broker.logs["orders", 0].end == 5 * (10 + len(big))


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
def test_timeout_must_be_finite_and_positive(client: Client, timeout: float) -> None:
    with pytest.raises(ConfigError, match="timeout"):
        Client("127.0.0.1", timeout=timeout)
    with pytest.raises(ConfigError, match="timeout"):
        client.fetch("orders", 0, 0, timeout=timeout)


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_port_must_be_one(port: int) -> None:
    with pytest.raises(ConfigError, match="port"):
        Client("127.0.0.1", port)


def test_threads_share_a_client(client: Client) -> None:
    client.produce("orders", 0, [b"a"])
    client.produce("orders", 1, [b"b"] * 100)
    seen: list[tuple[int, int]] = []

    def read(partition: int) -> None:
        for _ in range(50):
            seen.append((partition, len(client.fetch("orders", partition, 0))))

    threads = [threading.Thread(target=read, args=(index % 2,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {(0, 1), (1, 100)}
    assert len(seen) == 200

"""What goes wrong on the network: silence, hang-ups, lies about length, refusals."""

from __future__ import annotations

import os
import pickle
import socket
import threading
import time
from collections.abc import Callable

import pytest

from kclient.errors import (
    ClientClosedError,
    KafkaError,
    KafkaTimeout,
    ProtocolError,
    TransportError,
)
from kclient.kafka07 import Client, Fetch, FetchSizeTooSmall, Kafka07Error

from .memory_broker import FaultyServer, MemoryBroker, wait_until
from .test_wire_format import HELLO_1

EMPTY_FETCH = bytes.fromhex("00000002 0000")


def _client(server: FaultyServer | MemoryBroker, timeout: float = 5) -> Client:
    return Client("127.0.0.1", server.port, timeout=timeout)


def test_silent_broker_times_out() -> None:
    with FaultyServer(hold=True) as server, _client(server, 0.2) as client:
        started = time.monotonic()
        with pytest.raises(KafkaTimeout, match=r"fetch of t/0 .* at 127\.0\.0\.1:\d+: .*0\.2 s"):
            client.fetch("t", 0, 0)
        assert 0.15 < time.monotonic() - started < 2


def test_timeout_of_one_call() -> None:
    with FaultyServer(hold=True) as server, _client(server, 60) as client:
        with pytest.raises(TimeoutError):
            client.offsets("t", 0, timeout=0.1)
        with pytest.raises(TimeoutError):
            client.multifetch([Fetch("t", 0, 0)], timeout=0.1)


def test_trickling_broker_has_one_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stop = threading.Event()

        def trickle() -> None:
            conn, _ = listener.accept()
            with conn:
                conn.sendall(bytes.fromhex("00001000 0000"))
                while not stop.wait(0.05):
                    conn.sendall(b"\0")

        thread = threading.Thread(target=trickle)
        thread.start()
        with Client("127.0.0.1", listener.getsockname()[1], timeout=0.4) as client:
            started = time.monotonic()
            with pytest.raises(KafkaTimeout):
                client.fetch("t", 0, 0)
            assert time.monotonic() - started < 2
            stop.set()
            thread.join()


def test_broker_that_stops_reading_times_out_a_produce() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = Client("127.0.0.1", listener.getsockname()[1], timeout=0.3)
        with client, pytest.raises(KafkaTimeout, match="produce to t/0"):
            client.produce("t", 0, [bytes(50_000_000)])


def test_a_late_answer_is_never_taken_for_another(broker: MemoryBroker) -> None:
    with FaultyServer(hold=True) as server, _client(server, 0.1) as client:
        with pytest.raises(KafkaTimeout):
            client.fetch("t", 0, 0)
        server.answer = EMPTY_FETCH
        assert len(client.fetch("t", 0, 0)) == 0
        assert server.connections == 2


def test_bytes_that_nobody_asked_for_end_the_connection() -> None:
    with FaultyServer(EMPTY_FETCH + b"more", hold=True) as server, _client(server) as client:
        client.fetch("t", 0, 0)
        client.fetch("t", 0, 0)
        assert server.connections == 2


@pytest.mark.parametrize("answer", ["", "0000", "00000020", "00000020 0000 0000000b"])
def test_broker_that_hangs_up_half_way(answer: str) -> None:
    with FaultyServer(bytes.fromhex(answer)) as server, _client(server) as client:
        with pytest.raises(TransportError, match="hung up after") as caught:
            client.fetch("t", 0, 0)
        assert caught.value.retriable
        server.answer = EMPTY_FETCH
        assert len(client.fetch("t", 0, 0)) == 0


@pytest.mark.parametrize("answer", ["ffffffff", "80000000", "00000001 00", "7fffffff", "48545450"])
def test_impossible_frame(answer: str) -> None:
    with FaultyServer(bytes.fromhex(answer), hold=True) as server, _client(server) as client:
        with pytest.raises(ProtocolError, match="is the other side a Kafka"):
            client.fetch("t", 0, 0)
        server.answer = EMPTY_FETCH
        assert len(client.fetch("t", 0, 0)) == 0


def test_frame_larger_than_what_was_asked_for() -> None:
    answer = bytes.fromhex("00000067 0000") + bytes(0x65)
    with FaultyServer(answer) as server, _client(server) as client:
        with pytest.raises(ProtocolError, match="2 to 102"):
            client.fetch("t", 0, 0, max_size=100)
        with pytest.raises(ProtocolError, match="2 to 14 "):
            client.offsets("t", 0)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (-1, "UNKNOWN"),
        (1, "OFFSET_OUT_OF_RANGE"),
        (2, "INVALID_MESSAGE"),
        (3, "WRONG_PARTITION"),
        (4, "INVALID_FETCH_SIZE"),
        (5, "UNKNOWN_CODE_5"),
        (77, "UNKNOWN_CODE_77"),
    ],
)
def test_error_codes(code: int, name: str) -> None:
    answer = b"\0\0\0\2" + code.to_bytes(2, "big", signed=True)
    with FaultyServer(answer) as server:
        calls: list[Callable[[Client], object]] = [
            lambda client: client.fetch("t", 0, 0),
            lambda client: client.multifetch([Fetch("t", 0, 0)]),
            lambda client: client.offsets("t", 0),
        ]
        for call in calls:
            with _client(server) as client, pytest.raises(Kafka07Error) as caught:
                call(client)
            assert (caught.value.code, caught.value.name) == (code, name)


def test_refused_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    client = Client("127.0.0.1", port, timeout=5)
    with client, pytest.raises(TransportError, match=f"127.0.0.1:{port}: cannot connect: "):
        client.produce("t", 0, [b"x"])


def test_host_that_is_no_host() -> None:
    host = "x" * 70 + ".example"  # longer than a label may be: Python says UnicodeError
    with Client(host, timeout=5) as client, pytest.raises(TransportError, match=host):
        client.fetch("t", 0, 0)


def test_host_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **options: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", fail)
    with Client("nowhere", timeout=5) as client, pytest.raises(TransportError, match="Name or"):
        client.fetch("t", 0, 0)


def test_reading_goes_on_after_a_restart(broker: MemoryBroker, client: Client) -> None:
    broker.append("t", 0, HELLO_1)
    assert len(client.fetch("t", 0, 0)) == 1
    broker.hang_up()
    wait_until(lambda: broker.ended == 1)
    assert len(client.fetch("t", 0, 0)) == 1
    assert broker.connections == 2


def test_refused_produce_is_told_by_the_next_call(broker: MemoryBroker, client: Client) -> None:
    client.produce("t", 0, [b"x" * 1_000_001])
    wait_until(lambda: broker.ended == 1)
    with pytest.raises(TransportError, match=r"1 produce requests .* may be lost"):
        client.produce("t", 0, [b"hello"])
    client.produce("t", 0, [b"hello"])
    assert client.offsets("t", 0) == [15]


def test_answered_produces_are_not_reported_lost(broker: MemoryBroker, client: Client) -> None:
    client.produce("t", 0, [b"hello"])
    client.offsets("t", 0)
    broker.hang_up()
    wait_until(lambda: broker.ended == 1)
    client.produce("t", 0, [b"hello"])
    assert client.offsets("t", 0) == [30]


def test_close_wakes_a_waiting_call() -> None:
    with FaultyServer(hold=True) as server:
        client = _client(server, 30)
        failures: list[BaseException] = []

        def wait() -> None:
            try:
                client.fetch("t", 0, 0)
            except KafkaError as error:
                failures.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        wait_until(lambda: server.connections == 1)
        client.close()
        thread.join(5)
        assert [type(error) for error in failures] == [ClientClosedError]


def test_waiting_for_another_thread_counts() -> None:
    with FaultyServer(hold=True) as server, _client(server, 30) as client:

        def wait() -> None:
            with pytest.raises(KafkaTimeout):
                client.fetch("t", 0, 0, timeout=0.6)

        thread = threading.Thread(target=wait)
        thread.start()
        wait_until(lambda: server.connections == 1)
        with pytest.raises(KafkaTimeout, match="other threads"):
            client.fetch("t", 0, 0, timeout=0.1)
        thread.join()


def test_an_interrupted_call_leaves_no_half_answer(
    broker: MemoryBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.append("t", 0, HELLO_1)

    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(client, "_receive", interrupt)
        with pytest.raises(KeyboardInterrupt):
            client.fetch("t", 0, 0)
    assert client.offsets("t", 0) == [15]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_gets_its_own_connection(
    broker: MemoryBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.offsets("t", 0)
    monkeypatch.setattr("os.getpid", lambda: -1)  # as if we were that child
    client.offsets("t", 0)
    assert broker.connections == 2


def test_errors_pickle(client: Client) -> None:
    client.produce("t", 0, [b"x" * 100])
    errors: list[KafkaError] = []
    for fetch in (Fetch("t", 0, 999), Fetch("t", 99, 0), Fetch("t", 0, 0, 50)):
        with pytest.raises(KafkaError) as caught:
            client.fetch(*fetch[:3], max_size=fetch.max_size)
        errors.append(caught.value)
    for error in errors:
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
    assert isinstance(errors[2], FetchSizeTooSmall)

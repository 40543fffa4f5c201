"""Names with several addresses, resolvers that hang: each is told, none uses up the time."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from kclient.deadline import Deadline
from kclient.errors import KafkaTimeout, TransportError
from kclient.net.dialing import Address, dial, resolve

from .peer import Line, Peer


def v4(port: int, host: str = "127.0.0.1") -> Address:
    return socket.AF_INET, (host, port)


def dead_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def test_addresses_are_tried_until_one_answers() -> None:
    with Peer(Line.drain) as peer:
        targets = [v4(dead_port()), v4(dead_port()), v4(peer.port)]
        with dial(targets, "broker:9092", Deadline(20)) as sock:
            assert sock.getpeername()[1] == peer.port


def test_a_family_this_machine_lacks_is_one_that_does_not_answer() -> None:
    with Peer(Line.drain) as peer:
        odd: Address = (socket.AddressFamily.AF_APPLETALK, ("127.0.0.1", 1))
        with dial([odd, v4(peer.port)], "broker:9092", Deadline(20)) as sock:
            assert sock.getpeername()[1] == peer.port


def test_a_black_hole_leaves_time_for_the_next_address() -> None:
    with Peer(Line.drain) as peer, socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        where = full.getsockname()
        fillers = [socket.socket() for _ in range(8)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(where)
        with dial([v4(where[1]), v4(peer.port)], "broker:9092", Deadline(2)) as sock:
            assert sock.getpeername()[1] == peer.port
        for filler in fillers:
            filler.close()


def test_every_address_that_failed_is_named() -> None:
    with pytest.raises(TransportError) as got:
        dial([v4(dead_port()), v4(dead_port(), "127.0.0.2")], "broker:9092", Deadline(20))
    assert str(got.value) == (
        "broker:9092: no TCP connection (127.0.0.1: Connection refused; 127.0.0.2: Connection "
        "refused); is the broker up, and is this its port?"
    )


def test_no_time_left_is_a_timeout() -> None:
    deadline = Deadline(0.001)
    while not deadline.is_over:
        pass
    with pytest.raises((KafkaTimeout, TransportError)):
        dial([v4(dead_port())], "broker:9092", deadline)


def test_a_resolver_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def hang(*given: Any, **more: Any) -> Any:
        released.wait(60)
        raise socket.gaierror("too late")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    with pytest.raises(KafkaTimeout, match="DNS did not answer in time about 'slow.test'") as got:
        resolve("slow.test", 9092, Deadline(0.05))
    assert (got.value.stage, got.value.address) == ("dns", "slow.test:9092")  # type: ignore[attr-defined]
    released.set()


@pytest.mark.parametrize("name", ["nowhere.invalid", "a" * 70 + ".test", "b..test", "\udc80"])
def test_names_that_cannot_be_resolved(name: str) -> None:
    with pytest.raises(TransportError, match="cannot be resolved here") as got:
        resolve(name, 9092, Deadline(20))
    assert got.value.stage == "dns"  # type: ignore[attr-defined]


def test_numbers_need_no_resolver_and_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(threading, "Thread")
    assert resolve("127.0.0.1", 9092, Deadline(20)) == [v4(9092)]
    ((family, where),) = resolve("::1", 9092, Deadline(20))
    assert (family, where[:2]) == (socket.AF_INET6, ("::1", 9092))

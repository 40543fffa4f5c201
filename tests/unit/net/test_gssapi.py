"""The steps of GSSAPI with a library of our own, for what a real broker never does."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from kclient.errors import AuthenticationError
from kclient.net.gssapi import Gssapi

MUTUAL, INTEGRITY, SEQUENCE = 2, 32, 8


class GSSError(Exception):
    """What the library raises."""


class Flags(int):
    def __contains__(self, flag: int) -> bool:
        return bool(self & flag)


class Context:
    """A context that is complete after the broker's first answer."""

    made: dict[str, Any]
    offers = b"\x07\x00\x10\x00"
    flags = MUTUAL

    def __init__(self, **made: Any) -> None:
        type(self).made = made
        self.complete = False
        self.actual_flags = Flags(self.flags)

    def step(self, token: bytes | None) -> bytes | None:
        if token == b"bad":
            raise GSSError("Major (1):  wrong\n  Minor (2): key")
        self.complete = token is not None
        return b"first" if token is None else None

    def unwrap(self, token: bytes) -> Any:
        assert token == b"layers"
        return SimpleNamespace(message=self.offers)

    def wrap(self, message: bytes, encrypt: bool) -> Any:
        assert not encrypt
        return SimpleNamespace(message=b"wrapped:" + message)


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> type[Context]:
    class Own(Context):
        pass

    flags = SimpleNamespace(
        mutual_authentication=MUTUAL, integrity=INTEGRITY, out_of_sequence_detection=SEQUENCE
    )
    fake = SimpleNamespace(
        RequirementFlag=flags,
        SecurityContext=Own,
        Name=lambda text, kind: (text, kind),
        NameType=SimpleNamespace(hostbased_service="service", kerberos_principal="principal"),
        MechType=SimpleNamespace(kerberos="krb5"),
        Credentials=lambda **chosen: chosen,
        exceptions=SimpleNamespace(GSSError=GSSError),
    )
    monkeypatch.setitem(sys.modules, "gssapi", fake)
    return Own


def test_the_steps(library: type[Context]) -> None:
    exchange = Gssapi("broker.test", "kafka").exchange()
    assert next(exchange) == b"first"
    assert exchange.send(b"proof") == b""  # our side is complete: what layers are there?
    assert exchange.send(b"layers") == b"wrapped:\x01\x00\x00\x00"
    with pytest.raises(StopIteration):
        exchange.send(b"")
    assert library.made["name"] == ("kafka@broker.test", "service")
    assert library.made["creds"] is None
    assert library.made["flags"] & MUTUAL


def test_a_principal_and_a_keytab_have_a_cache_of_their_own(library: type[Context]) -> None:
    caches = set()
    for principal in ("a@R", "b@R", "a@R"):
        next(Gssapi("h", "kafka", principal, "/k").exchange())
        made = library.made["creds"]
        assert (made["name"], made["usage"]) == ((principal, "principal"), "initiate")
        assert made["store"]["client_keytab"] == "/k"
        caches.add(made["store"]["ccache"])
    assert len(caches) == 2
    next(Gssapi("h", "kafka", "a@R").exchange())
    assert "store" not in library.made["creds"]


def test_a_broker_that_does_not_prove_itself(library: type[Context]) -> None:
    library.flags = 0
    exchange = Gssapi("h", "kafka").exchange()
    next(exchange)
    exchange.send(b"proof")
    with pytest.raises(AuthenticationError, match="did not prove who it is"):
        exchange.send(b"layers")


@pytest.mark.parametrize("offers", [b"\x06\x00\x10\x00", b"", b"\x01"])
def test_a_broker_that_insists_on_a_layer(library: type[Context], offers: bytes) -> None:
    library.offers = offers
    exchange = Gssapi("h", "kafka").exchange()
    next(exchange)
    exchange.send(b"proof")
    with pytest.raises(AuthenticationError, match="insists on a security layer"):
        exchange.send(b"layers")


def test_what_the_library_says_is_told_in_one_line() -> None:
    exchange = Gssapi("h", "kafka").exchange()
    next(exchange)
    with pytest.raises(
        AuthenticationError, match=r"^Kerberos: Major \(1\): wrong Minor \(2\): key$"
    ):
        exchange.send(b"bad")


def test_the_repr_tells_who_and_where() -> None:
    assert repr(Gssapi("h", "kafka", "a@R")) == ("<GSSAPI as Kerberos principal 'a@R' to kafka@h>")

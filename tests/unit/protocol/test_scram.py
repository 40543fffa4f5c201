"""SCRAM against the published exchange, and against brokers that cheat."""

from __future__ import annotations

import base64
from collections.abc import Generator
from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.errors import AuthenticationError, ConfigError
from kclient.protocol.sasl import Scram

# The example of RFC 7677, message by message.
NONCE = "rOprNGfwEbeRWgbNEkqO"
THEIRS = f"{NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = "W22ZaJ0SNY7soEsUEjb6gQ=="
CHALLENGE = f"r={THEIRS},s={SALT},i=4096".encode()
PROOF = f"c=biws,r={THEIRS},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
SIGNED = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def login(username: str = "user", **options: bool) -> Generator[bytes, bytes, None]:
    scram = Scram("SCRAM-SHA-256", username, "pencil", new_nonce=lambda: NONCE, **options)
    return scram.exchange()


def test_the_published_exchange() -> None:
    exchange = login()
    assert next(exchange) == f"n,,n=user,r={NONCE}".encode()
    assert exchange.send(CHALLENGE) == PROOF
    with pytest.raises(StopIteration):
        exchange.send(SIGNED)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # how it reads its own files
@pytest.mark.parametrize("name", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_proof_is_that_of_a_peer(name: str) -> None:
    peer = import_module("kafka.net.sasl.scram").ScramClient("alice", "s3cret=,é", name)
    nonce = peer.nonce.decode()
    ours = Scram(name, "alice", "s3cret=,é", new_nonce=lambda: nonce).exchange()
    assert next(ours) == peer.first_message()
    challenge = f"r={nonce}more,s={SALT},i=8192".encode()
    peer.process_server_first_message(challenge)
    assert ours.send(challenge) == peer.final_message()
    with pytest.raises(StopIteration):
        ours.send(b"v=" + base64.b64encode(peer.server_signature))


def test_each_login_has_a_nonce_of_its_own() -> None:
    scram = Scram("SCRAM-SHA-512", "user", "pencil")
    first, second = next(scram.exchange()), next(scram.exchange())
    assert first != second
    assert len(first) >= len("n,,n=user,r=") + 24


def test_a_name_is_escaped() -> None:
    assert next(login("a=b,c")) == f"n,,n=a=3Db=2Cc,r={NONCE}".encode()


def test_a_delegation_token_says_so() -> None:
    assert next(login("tokenid", token_auth=True)) == (
        f"n,,n=tokenid,r={NONCE},tokenauth=true".encode()
    )


@pytest.mark.parametrize(
    ("challenge", "complaint"),
    [
        (f"r={NONCE},s={SALT},i=4096", "does not extend ours"),
        (f"r=x{THEIRS},s={SALT},i=4096", "does not extend ours"),
        (f"r={NONCE[:-1]}X{NONCE},s={SALT},i=4096", "does not extend ours"),
        (f"r={THEIRS},s={SALT},i=4095", "'4095' SCRAM iterations"),
        (f"r={THEIRS},s={SALT},i=0", "'0' SCRAM iterations"),
        (f"r={THEIRS},s={SALT},i=-4096", "'-4096' SCRAM iterations"),
        (f"r={THEIRS},s={SALT},i=1000001", "'1000001' SCRAM iterations"),
        (f"r={THEIRS},s={SALT},i={'9' * 400}", "SCRAM iterations"),
        (f"r={THEIRS},s={SALT},i=many", "'many' SCRAM iterations"),
        (f"r={THEIRS},s={SALT},i=٤٠٩٦", "SCRAM iterations"),
        (f"r={THEIRS},s=!!!,i=4096", "salt is not base64"),
        (f"r={THEIRS},s=,i=4096", "salt is not base64"),
        (f"m=later,r={THEIRS},s={SALT},i=4096", "not a nonce, salt and count"),
        (f"r={THEIRS},r={THEIRS},s={SALT},i=4096", "not a nonce, salt and count"),
        (f"s={SALT},i=4096", "not a nonce, salt and count"),
        ("", "malformed"),
        ("hello", "malformed"),
        ("e=unknown-user", "refused the login: 'unknown-user'"),
        ("x" * 10_000, "10000 bytes instead of SCRAM"),
    ],
)
def test_a_challenge_that_cheats_gets_no_proof(challenge: str, complaint: str) -> None:
    exchange = login()
    next(exchange)
    with pytest.raises(AuthenticationError, match=complaint):
        exchange.send(challenge.encode())


def test_a_challenge_that_is_no_text() -> None:
    exchange = login()
    next(exchange)
    with pytest.raises(AuthenticationError, match="not UTF-8"):
        exchange.send(b"\xff\xfe")


@pytest.mark.parametrize(
    ("last", "complaint"),
    [
        (b"v=" + base64.b64encode(bytes(32)), "signature is wrong"),
        (b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4", "not base64"),
        (SIGNED[:2] + base64.b64encode(bytes(16)), "signature is wrong"),
        (b"v=", "not base64"),
        (b"e=invalid-proof", "refused the login: 'invalid-proof'"),
        (b"r=again", "holds no signature"),
        (b"", "malformed"),
    ],
)
def test_nobody_is_logged_in_before_the_broker_proves_itself(last: bytes, complaint: str) -> None:
    exchange = login()
    next(exchange)
    exchange.send(CHALLENGE)
    with pytest.raises(AuthenticationError, match=complaint):
        exchange.send(last)


PIECES = st.sampled_from(["r=", THEIRS, NONCE, ",s=", SALT, ",i=", "4096", ",", "=", "v=", "e=x"])
ANSWERS = st.binary(max_size=80) | st.lists(PIECES, max_size=9).map(
    lambda all_: "".join(all_).encode()
)


@given(ANSWERS, ANSWERS)
def test_nothing_but_the_right_answers_logs_in_or_breaks(first: bytes, last: bytes) -> None:
    exchange = login()
    next(exchange)
    try:
        exchange.send(first)
        exchange.send(last)
    except AuthenticationError:
        return
    pytest.fail("a forged exchange was taken for a login")


def test_an_empty_name_and_an_unknown_hash_are_refused() -> None:
    with pytest.raises(ConfigError, match="not empty"):
        Scram("SCRAM-SHA-256", "", "x")
    with pytest.raises(ConfigError, match="'SCRAM-SHA-1'"):
        Scram("SCRAM-SHA-1", "user", "x")

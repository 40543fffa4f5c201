"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): both sides prove the password.

Names and passwords go as UTF-8 without SASLprep, because Kafka's own tools and clients store
and send them so: preparing them here would lock out the users whose passwords it changes.
Apache Kafka's brokers take ASCII names only.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Generator
from typing import NamedTuple

from kclient.errors import AuthenticationError, ConfigError
from kclient.protocol.sasl.mechanism import user

MIN_ITERATIONS = 4096
"""Fewer would make a password that was overheard cheap to guess (RFC 7677)."""
MAX_ITERATIONS = 1_000_000
"""More would let whoever answers keep this processor busy; Kafka itself ends at 16384."""

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_NO_CHANNEL_BINDING = "n,,"
_NONCE_BYTES = 24
_LONGEST_ANSWER = 8192  # bytes; Kafka's are below 200


def _random_nonce() -> str:
    return secrets.token_urlsafe(_NONCE_BYTES)


class _Challenge(NamedTuple):
    text: str
    nonce: str
    salt: bytes
    iterations: int


class Scram:
    """Log in by name and password, or by a delegation token's id and HMAC."""

    def __init__(
        self,
        name: str,
        username: str,
        password: str,
        *,
        token_auth: bool = False,
        new_nonce: Callable[[], str] = _random_nonce,
    ) -> None:
        """Raises ConfigError for an unknown ``name`` or an empty user name."""
        if name not in _HASHES:
            raise ConfigError(f"no SCRAM mechanism is called {name!r}, only {list(_HASHES)}")
        if not username:
            raise ConfigError(f"{name} needs a user name that is not empty")
        self.name = name
        self.identity = f"delegation token {username!r}" if token_auth else user(username)
        self._hash = _HASHES[name]
        self._username = username
        self._password = password.encode()
        self._extensions = ",tokenauth=true" if token_auth else ""  # KIP-48
        self._new_nonce = new_nonce

    def exchange(self) -> Generator[bytes, bytes, None]:
        """Say who we are, prove that we know the password, and have the broker prove it too.

        Raises AuthenticationError.
        """
        nonce = self._new_nonce()
        first = f"n={_escaped(self._username)},r={nonce}{self._extensions}"
        challenge = _read_challenge((yield f"{_NO_CHANNEL_BINDING}{first}".encode()), nonce)

        binding = base64.b64encode(_NO_CHANNEL_BINDING.encode()).decode()
        final = f"c={binding},r={challenge.nonce}"
        signed = f"{first},{challenge.text},{final}".encode()
        proof, signature = self._prove(challenge, signed)
        answer = yield f"{final},p={base64.b64encode(proof).decode()}".encode()
        _verify(answer, signature)

    def _prove(self, challenge: _Challenge, signed: bytes) -> tuple[bytes, bytes]:
        """Our proof, and the signature that the broker must answer with."""
        salted = hashlib.pbkdf2_hmac(
            self._hash, self._password, challenge.salt, challenge.iterations
        )
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        stored_key = hashlib.new(self._hash, client_key).digest()
        mask = hmac.digest(stored_key, signed, self._hash)
        proof = bytes(left ^ right for left, right in zip(client_key, mask, strict=True))
        server_key = hmac.digest(salted, b"Server Key", self._hash)
        return proof, hmac.digest(server_key, signed, self._hash)

    def __repr__(self) -> str:
        return f"<{self.name} as {self.identity}>"


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _read_challenge(answer: bytes, nonce: str) -> _Challenge:
    text, fields = _fields(answer)
    if [key for key, _ in fields[:3]] != ["r", "s", "i"]:
        raise AuthenticationError("the broker's SCRAM challenge is not a nonce, salt and count")
    (_, theirs), (_, salt), (_, count) = fields[:3]
    # A nonce that only repeats ours adds nothing of the broker's: the exchange could be replayed.
    if not theirs.startswith(nonce) or len(theirs) == len(nonce):
        raise AuthenticationError("the broker's SCRAM nonce does not extend ours")
    return _Challenge(text, theirs, _decoded(salt, "salt"), _iterations(count))


def _iterations(text: str) -> int:
    count = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if not MIN_ITERATIONS <= count <= MAX_ITERATIONS:
        raise AuthenticationError(
            f"the broker asks for {text[:20]!r} SCRAM iterations; kclient accepts "
            f"{MIN_ITERATIONS} to {MAX_ITERATIONS}: have the credentials made anew"
        )
    return count


def _verify(answer: bytes, signature: bytes) -> None:
    _, fields = _fields(answer)
    key, value = fields[0]
    if key != "v":
        raise AuthenticationError("the broker's last SCRAM message holds no signature")
    if not hmac.compare_digest(_decoded(value, "signature"), signature):
        raise AuthenticationError(
            "the broker's SCRAM signature is wrong: it does not know the password, so it may "
            "not be the broker it claims to be"
        )


def _fields(answer: bytes) -> tuple[str, list[tuple[str, str]]]:
    """The text of an answer and its ``key=value`` parts. Raises if it is an error (``e=``)."""
    if len(answer) > _LONGEST_ANSWER:
        raise AuthenticationError(f"the broker answered with {len(answer)} bytes instead of SCRAM")
    try:
        text = answer.decode()
    except UnicodeDecodeError:
        raise AuthenticationError("the broker's SCRAM message is not UTF-8") from None
    fields = []
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals or len(key) != 1:
            raise AuthenticationError("the broker's SCRAM message is malformed")
        fields.append((key, value))
    if fields[0][0] == "e":
        raise AuthenticationError(f"the broker refused the login: {fields[0][1][:200]!r}")
    return text, fields


def _decoded(text: str, what: str) -> bytes:
    try:
        value = base64.b64decode(text, validate=True)
    except ValueError:
        value = b""
    if not value:
        raise AuthenticationError(f"the broker's SCRAM {what} is not base64")
    return value

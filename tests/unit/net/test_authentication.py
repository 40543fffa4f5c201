"""The login as a conversation, with a broker that says what it is told to."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from kclient.deadline import Deadline
from kclient.errors import AuthenticationError, KafkaError, TransportError, UnsupportedVersion
from kclient.net.authentication import authenticate
from kclient.protocol import Message
from kclient.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kclient.protocol.negotiate import KAFKA_0_9, Versions
from kclient.protocol.sasl import Mechanism, OAuthBearer, Plain, Scram

KAFKA_4 = Versions({17: (0, 1), 36: (0, 2)})
KAFKA_1 = Versions({17: (0, 1), 36: (0, 0)})
KAFKA_0_10 = Versions({17: (0, 0)})
LOGIN = Plain("alice", "TopSecret")


class Script:
    """A connection whose broker gives these answers, one after the other."""

    address = "broker-1:9093"

    def __init__(self, *answers: Message | bytes | Exception) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[Message | bytes, int]] = []

    def ask(self, request: Message, version: int, deadline: Deadline) -> Message:
        answer = self._next(request, version)
        assert isinstance(answer, Message)
        return answer

    def ask_raw(self, token: bytes, deadline: Deadline) -> bytes:
        answer = self._next(token, -1)
        assert isinstance(answer, bytes)
        return answer

    def _next(self, asked: Message | bytes, version: int) -> Message | bytes:
        self.asked.append((asked, version))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def login(
    script: Script, versions: Versions = KAFKA_4, mechanism: Mechanism = LOGIN, again: bool = False
) -> float:
    return authenticate(script, mechanism, versions, Deadline(5), again=again)


def welcome(*mechanisms: str) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(mechanisms=list(mechanisms))


def accepted(lifetime_ms: int = 0, token: bytes = b"") -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime_ms)


@pytest.mark.parametrize(("versions", "newest"), [(KAFKA_4, 2), (KAFKA_1, 0)])
def test_tokens_go_in_the_newest_version_that_both_speak(versions: Versions, newest: int) -> None:
    script = Script(welcome("PLAIN"), accepted())
    assert login(script, versions) == 0
    assert script.asked == [
        (SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (SaslAuthenticateRequest(auth_bytes=b"\0alice\0TopSecret"), newest),
    ]


def test_the_session_lasts_as_the_broker_says() -> None:
    assert login(Script(welcome("PLAIN"), accepted(lifetime_ms=90_500))) == 90.5


def test_only_the_last_answer_says_how_long() -> None:
    scram = Scram("SCRAM-SHA-256", "user", "pencil", new_nonce=lambda: "rOprNGfwEbeRWgbNEkqO")
    challenge = (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    signature = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    script = Script(welcome(), accepted(7, challenge), accepted(4_000, signature))
    assert login(script, mechanism=scram) == 4.0


def test_a_broker_of_the_age_of_0_10_gets_bare_tokens() -> None:
    script = Script(welcome("PLAIN"), b"")
    assert login(script, KAFKA_0_10) == 0
    assert script.asked[1:] == [(b"\0alice\0TopSecret", -1)]


def refusal(script: Script, versions: Versions = KAFKA_4, again: bool = False) -> KafkaError:
    with pytest.raises(KafkaError) as refused:
        login(script, versions, again=again)
    error = refused.value
    assert "TopSecret" not in f"{error}{error!r}{vars(error)}"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    return error


def test_a_mechanism_that_is_not_offered() -> None:
    offered = SaslHandshakeResponse(error_code=33, mechanisms=["SCRAM-SHA-512", "GSSAPI"])
    error = refusal(Script(offered))
    assert str(error) == (
        "broker-1:9093: logging in as user 'alice' by PLAIN: the broker does not offer this "
        "mechanism on this port; it offers: SCRAM-SHA-512, GSSAPI. Set sasl_mechanism to one of "
        "them"
    )
    assert vars(error) == {
        "offered": ("SCRAM-SHA-512", "GSSAPI"),
        "address": "broker-1:9093",
        "mechanism": "PLAIN",
        "stage": "sasl",
    }


def test_a_port_without_sasl() -> None:
    error = refusal(Script(SaslHandshakeResponse(error_code=34)))
    assert "takes no SASL login; set security_protocol" in str(error)


def test_a_login_again_too_soon() -> None:
    error = refusal(Script(SaslHandshakeResponse(error_code=34)), again=True)
    assert "takes no login again now" in str(error)


def test_an_unknown_error_of_the_handshake() -> None:
    assert "UNKNOWN_SERVER_ERROR" in str(refusal(Script(SaslHandshakeResponse(error_code=-1))))


def test_a_wrong_password() -> None:
    wrong = SaslAuthenticateResponse(error_code=58, error_message="Invalid username or password")
    error = refusal(Script(welcome("PLAIN"), wrong))
    assert isinstance(error, AuthenticationError)
    assert not error.retriable
    assert str(error) == (
        "broker-1:9093: logging in as user 'alice' by PLAIN: the broker refused: "
        "'Invalid username or password'; check the name and the password"
    )


def test_a_refusal_without_a_reason_and_one_of_another_kind() -> None:
    silent = SaslAuthenticateResponse(error_code=58, error_message=None)
    assert "the broker refused; check the name" in str(refusal(Script(welcome(), silent)))
    other = SaslAuthenticateResponse(error_code=34, error_message="not now")
    assert "not now: ILLEGAL_SASL_STATE" in str(refusal(Script(welcome(), other)))


def test_a_login_again_says_so() -> None:
    wrong = SaslAuthenticateResponse(error_code=58, error_message="changed principal")
    error = refusal(Script(welcome(), wrong), again=True)
    assert "logging in again as user 'alice'" in str(error)


def test_a_token_that_is_refused_in_json() -> None:
    script = Script(
        welcome(),
        accepted(token=b'{"status":"invalid_token"}'),
        SaslAuthenticateResponse(error_code=58, error_message='{"status":"invalid_token"}'),
    )
    with pytest.raises(AuthenticationError, match="invalid_token.*check the token's issuer"):
        login(script, mechanism=OAuthBearer("TopSecret"))
    assert script.asked[-1] == (SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)


def hang_up() -> TransportError:
    return TransportError("broker-1:9093: the broker closed the connection")


@pytest.mark.parametrize(
    "script",
    [lambda: Script(hang_up()), lambda: Script(welcome("PLAIN"), hang_up())],
    ids=["handshake", "token"],
)
@pytest.mark.parametrize("versions", [KAFKA_4, KAFKA_0_10])
def test_a_broker_that_hangs_up(script: Callable[[], Script], versions: Versions) -> None:
    error = refusal(script(), versions)
    assert isinstance(error, TransportError)
    assert error.retriable
    assert "logging in as user 'alice' by PLAIN: the connection ended in the middle" in str(error)
    assert "before Kafka 1.0" in str(error)


def test_a_broker_too_old_for_a_handshake() -> None:
    with pytest.raises(UnsupportedVersion, match="does not have SaslHandshake"):
        login(Script(), KAFKA_0_9)

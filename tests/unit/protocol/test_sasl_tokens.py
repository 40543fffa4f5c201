"""The mechanisms of one token: PLAIN, OAUTHBEARER, AWS_MSK_IAM; and what no repr shows."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from importlib import import_module
from typing import Any
from unittest import mock

import pytest

from kclient.errors import AuthenticationError, ConfigError
from kclient.protocol.messages.alter_user_scram_credentials import ScramCredentialUpsertion
from kclient.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from kclient.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kclient.protocol.sasl import AwsCredentials, Mechanism, MskIam, OAuthBearer, Plain, Scram
from kclient.protocol.sasl.sigv4 import (
    Scope,
    canonical_request,
    sign,
    signing_key,
    string_to_sign,
    timestamp,
)

NOON = datetime(2026, 11, 5, 12, 0, tzinfo=timezone.utc)
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
HOST = "b-1.demo.abc123.c2.kafka.eu-west-1.amazonaws.com"


def test_plain_sends_name_and_password_and_is_done() -> None:
    exchange = Plain("alice", "pässword").exchange()
    assert next(exchange) == "\0alice\0pässword".encode()
    with pytest.raises(StopIteration):
        exchange.send(b"")


@pytest.mark.parametrize(("name", "password"), [("a\0b", "x"), ("a", "x\0y")])
def test_plain_cannot_be_tricked_by_a_nul(name: str, password: str) -> None:
    with pytest.raises(ConfigError, match="NUL"):
        Plain(name, password)


def test_a_bearer_token_with_extensions() -> None:
    exchange = OAuthBearer("abc.def-_~+/==", {"logicalCluster": "lkc-1", "traceId": "7"}).exchange()
    assert next(exchange) == (
        b"n,,\x01auth=Bearer abc.def-_~+/==\x01logicalCluster=lkc-1\x01traceId=7\x01\x01"
    )
    with pytest.raises(StopIteration):
        exchange.send(b"")


def test_a_refused_bearer_token_is_acknowledged_then_raised() -> None:
    exchange = OAuthBearer("token").exchange()
    next(exchange)
    assert exchange.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(AuthenticationError, match="invalid_token"):
        exchange.send(b"")


@pytest.mark.parametrize("token", ["", "a b", "a\x01auth=x", "tokén", "a\n"])
def test_what_is_no_bearer_token_is_not_sent_and_not_shown(token: str) -> None:
    with pytest.raises(AuthenticationError, match="token provider") as refused:
        OAuthBearer(token)
    assert not token or token not in str(refused.value)


@pytest.mark.parametrize(
    "extensions", [{"auth": "x"}, {"a_b": "x"}, {"": "x"}, {"a": ""}, {"a": "x\x01b=y"}]
)
def test_extensions_that_cannot_be_sent(extensions: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="OAUTHBEARER extension"):
        OAuthBearer("token", extensions)


# AWS's published examples of its signing algorithm.
def test_the_signing_key_of_the_guide() -> None:
    key = signing_key(SECRET, Scope("20120215", "us-east-1", "iam"))
    assert key.hex() == "f4780e2d9f65fa895f9c67b32ce1baf0b0d8a43505a000a1a9e090d414db404d"


@pytest.mark.parametrize(
    ("method", "parameters", "signature"),
    [
        ("GET", {}, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", {}, "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        (
            "GET",
            {"Param2": "value2", "Param1": "value1"},
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
    ],
)
def test_signatures_of_the_test_suite(
    method: str, parameters: dict[str, str], signature: str
) -> None:
    moment = "20150830T123600Z"
    scope = Scope(moment[:8], "us-east-1", "service")
    signed = {"host": "example.amazonaws.com", "x-amz-date": moment}
    request = canonical_request(method, "/", parameters, signed)
    assert sign(SECRET, scope, string_to_sign(request, moment, scope)) == signature


def test_the_signed_url_of_the_guide() -> None:
    """The form of signature that AWS_MSK_IAM uses: everything in the query."""
    moment = timestamp(datetime(2013, 5, 24, tzinfo=timezone.utc))
    scope = Scope(moment[:8], "us-east-1", "s3")
    query = {
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"AKIAIOSFODNN7EXAMPLE/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": "86400",
        "X-Amz-SignedHeaders": "host",
    }
    host = {"host": "examplebucket.s3.amazonaws.com"}
    request = canonical_request("GET", "/test.txt", query, host, "UNSIGNED-PAYLOAD")
    signature = sign(
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", scope, string_to_sign(request, moment, scope)
    )
    assert signature == "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # how it reads its own files
@pytest.mark.parametrize("session_token", [None, "IQoJb3JpZ2luX2VjE//==+&%"])
def test_the_token_for_msk_is_that_of_a_peer(session_token: str | None) -> None:
    msk = import_module("kafka.net.sasl.msk")
    with mock.patch.object(msk.datetime, "datetime", mock.Mock(now=lambda _zone: NOON)):
        peer = msk.AwsMskIamClient(HOST, "AKIDEXAMPLE", SECRET, "eu-west-1", session_token)
    credentials = AwsCredentials("AKIDEXAMPLE", SECRET, session_token)
    exchange = MskIam(HOST, "eu-west-1", credentials, NOON, user_agent="kafka-python").exchange()
    assert json.loads(next(exchange)) == json.loads(peer.first_message())
    with pytest.raises(StopIteration):
        exchange.send(b'{"version":"2020_10_22","request-id":"1"}')


def test_the_token_for_msk_is_dated_in_utc() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=14)))
    token = next(MskIam(HOST, "eu-west-1", AwsCredentials("AKID", SECRET), there).exchange())
    assert json.loads(token)["x-amz-date"] == "20261105T120000Z"


@pytest.mark.parametrize("answer", [b"", b"null", b"[]", b'"x"', b'{"version":"1999_01_01"}'])
def test_an_answer_that_is_not_msk(answer: bytes) -> None:
    exchange = MskIam(HOST, "eu-west-1", AwsCredentials("AKID", SECRET), NOON).exchange()
    next(exchange)
    with pytest.raises(AuthenticationError):
        exchange.send(answer)


MECHANISMS: list[Mechanism] = [
    Plain("alice", "TopSecret"),
    Scram("SCRAM-SHA-256", "alice", "TopSecret"),
    Scram("SCRAM-SHA-512", "alice", "TopSecret", token_auth=True),
    OAuthBearer("TopSecret"),
    MskIam(HOST, "eu-west-1", AwsCredentials("AKID", "TopSecret", "TopSecret"), NOON),
]
MESSAGES: list[Any] = [
    AwsCredentials("AKID", "TopSecret", "TopSecret"),
    SaslAuthenticateRequest(auth_bytes=b"\0alice\0TopSecret"),
    CreateDelegationTokenResponse(hmac=b"TopSecret"),
    ScramCredentialUpsertion(salted_password=b"TopSecret"),
]


@pytest.mark.parametrize("thing", [*MECHANISMS, *MESSAGES], ids=lambda thing: type(thing).__name__)
def test_no_repr_shows_a_secret(thing: object) -> None:
    assert "TopSecret" not in repr(thing) + str(thing)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
def test_a_mechanism_names_who_logs_in(mechanism: Mechanism) -> None:
    assert mechanism.name in repr(mechanism)
    assert mechanism.identity in repr(mechanism)

"""Every login against a real broker, which tells by what name it knows us."""

from __future__ import annotations

import logging
import time
import traceback
from base64 import b64encode
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kclient.deadline import Deadline
from kclient.errors import AuthenticationError, KafkaError, TransportError
from kclient.net.connection import Connection
from kclient.net.pool import Pool
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse

from .exchange import until
from .logins import (
    PASSWORD,
    SCRAM,
    SESSION_MS,
    Secured,
    add_scram_user,
    connect,
    create_token,
    endpoint,
    jwt,
    login_name,
    opener,
    options,
    token_endpoint,
    who_am_i,
)

ALICE = {"sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}


def sasl(secured: Secured, listener: str, mechanism: str) -> dict[str, Any]:
    """The options for a listener that wants a login."""
    with_tls = listener in ("SASL_SSL", "SIGNED")
    return {
        "address": secured.kafka.listener(listener),
        "security_protocol": "SASL_SSL" if with_tls else "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        **({"ssl_cafile": secured.ca} if with_tls else {}),
    }


def speaks(connection: Connection) -> bool:
    """Whether the broker answers a question that it keeps from strangers."""
    version = connection.version_of(MetadataRequest)
    answer = connection.ask(MetadataRequest(topics=[]), version, Deadline(30))
    assert isinstance(answer, MetadataResponse)
    return len(answer.brokers) == 1


# --- names and passwords ---


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_name_and_a_password(
    secured: Secured, listener: str, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assert login_name(**sasl(secured, listener, mechanism), **ALICE) == "alice"
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
@pytest.mark.parametrize(("name", "password"), [("alice", "wrong-word"), ("nobody", PASSWORD)])
def test_a_wrong_name_or_password(
    secured: Secured,
    mechanism: str,
    name: str,
    password: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    chosen = sasl(secured, "SASL_SSL", mechanism)
    with pytest.raises(AuthenticationError) as refused:
        connect(**chosen, sasl_plain_username=name, sasl_plain_password=password)
    said = str(refused.value)
    assert said.startswith(
        f"{chosen['address']}: logging in as user {name!r} by {mechanism}: the broker refused: "
        "'Authentication failed"
    )
    assert "; check the name and the password" in said
    # Neither what a user prints, nor a traceback with its causes, nor any log.
    shown = [repr(refused.value), repr(vars(refused.value)), said, caplog.text]
    shown += traceback.format_exception(refused.value)
    assert password not in "".join(shown)


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("a=b,c", "x"),
        ("plain-name", "p,=\u00e9\u2460 \ufb01"),  # what SASLprep would change, and Kafka keeps
    ],
)
def test_scram_names_and_passwords_that_need_care(
    secured: Secured, mechanism: str, name: str, password: str
) -> None:
    add_scram_user(secured.kafka, mechanism, name, password)
    chosen = sasl(secured, "SASL_SSL", mechanism)
    given = {"sasl_plain_username": name, "sasl_plain_password": password}
    # The broker learns of a new user a moment after the controller does.
    until(lambda: _logs_in(**chosen, **given), f"{name} is known")
    assert login_name(**chosen, **given) == name


def _logs_in(**given: Any) -> bool:
    try:
        connect(**given).close()
    except AuthenticationError:
        return False
    return True


def test_a_peer_logs_in_with_what_we_log_in_with(secured: Secured) -> None:
    peer = AdminClient(
        {
            "bootstrap.servers": secured.kafka.listener("SASL_SSL"),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
            "ssl.ca.location": secured.ca,
        }
    )
    assert len(peer.list_topics(timeout=30).brokers) == 1


@pytest.mark.parametrize("mechanism", SCRAM)
def test_a_delegation_token(secured: Secured, mechanism: str) -> None:
    chosen = sasl(secured, "SASL_SSL", mechanism)
    with closing(connect(**chosen, **ALICE)) as connection:
        token = create_token(connection)
    given = {
        **chosen,
        "sasl_plain_username": token.token_id,
        "sasl_plain_password": b64encode(token.hmac).decode(),
    }
    until(lambda: _logs_in(**given, sasl_scram_token_auth=True), "the token is known")
    with closing(connect(**given, sasl_scram_token_auth=True)) as connection:
        assert speaks(connection)
    # Without saying so, the id of a token is a name that nobody has.
    with pytest.raises(AuthenticationError, match=f"user '{token.token_id}'"):
        connect(**given)


# --- what goes wrong besides ---


def test_a_mechanism_that_the_port_does_not_offer(secured: Secured) -> None:
    with pytest.raises(AuthenticationError, match="it offers: OAUTHBEARER") as refused:
        connect(**sasl(secured, "UNSIGNED", "SCRAM-SHA-512"), **ALICE)
    assert refused.value.offered == ("OAUTHBEARER",)  # type: ignore[attr-defined]


def test_a_login_on_a_port_that_takes_none(secured: Secured) -> None:
    chosen = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", **ALICE}
    with pytest.raises(AuthenticationError, match="this port takes no SASL login"):
        connect(secured.kafka.bootstrap_servers, **chosen)


def test_no_login_on_a_port_that_wants_one(secured: Secured) -> None:
    with pytest.raises(AuthenticationError, match="this listener wants a login"):
        connect(secured.kafka.listener("SASL_PLAINTEXT"))


# --- sessions that end (KIP-368) ---


def test_a_session_is_renewed_on_the_same_connection(secured: Secured) -> None:
    chosen = sasl(secured, "LONG", "PLAIN") | ALICE
    door = opener(**chosen)
    with closing(door.open(endpoint(chosen["address"]), Deadline(30))) as connection:
        first = connection.login_due
        assert first > 0
        door.log_in(connection, Deadline(30), again=True)
        assert connection.login_due > first
        assert who_am_i(connection) == "alice"


def test_a_pool_renews_sessions_before_they_end(secured: Secured) -> None:
    chosen = sasl(secured, "SHORT", "PLAIN") | ALICE
    address = chosen["address"]
    pool = Pool(options(**chosen))
    with closing(pool):
        with pool.lease(endpoint(address), "admin", Deadline(30)) as first:
            assert speaks(first)
        dues = {first.login_due}
        # Two renewals: the connection is alive when its first session is long over.
        while len(dues) < 3:
            until(lambda: time.monotonic() >= first.login_due, "the login is due")
            with pool.lease(endpoint(address), "admin", Deadline(30)) as again:
                assert again is first
                assert who_am_i(again) == "alice"
            dues.add(first.login_due)


def test_two_renewals_within_a_second_are_refused(secured: Secured) -> None:
    chosen = sasl(secured, "LONG", "PLAIN") | ALICE
    door = opener(**chosen)

    def renew(connection: Connection, times: int) -> None:
        for _ in range(times):
            door.log_in(connection, Deadline(30), again=True)

    with (
        closing(door.open(endpoint(chosen["address"]), Deadline(30))) as connection,
        pytest.raises(AuthenticationError, match="takes no login again now"),
    ):
        renew(connection, 50)  # the machine may be slow, but not so slow


def test_a_session_that_nobody_renews_is_ended_by_the_broker(secured: Secured) -> None:
    with closing(connect(**sasl(secured, "SHORT", "PLAIN"), **ALICE)) as connection:
        assert speaks(connection)

        def ended() -> bool:
            try:
                return not speaks(connection)
            except TransportError:
                return True

        until(ended, "the session ends", 10 * SESSION_MS / 1000)


def test_a_session_cannot_change_hands(secured: Secured) -> None:
    chosen = sasl(secured, "LONG", "PLAIN")
    with closing(connect(**chosen, **ALICE)) as connection:
        bob = opener(**chosen, sasl_plain_username="bob", sasl_plain_password="x")
        with pytest.raises(KafkaError, match="logging in again as user 'bob'"):
            bob.log_in(connection, Deadline(30), again=True)


def test_a_session_without_end(secured: Secured) -> None:
    with closing(connect(**sasl(secured, "SASL_PLAINTEXT", "PLAIN"), **ALICE)) as connection:
        assert connection.login_due == 0


# --- OAuth ---


def test_an_unsigned_token(secured: Secured) -> None:
    chosen = sasl(secured, "UNSIGNED", "OAUTHBEARER")
    assert login_name(**chosen, sasl_oauth_token_provider=lambda: jwt(None)) == "alice"


def test_a_signed_token_with_extensions_that_limits_the_session(secured: Secured) -> None:
    chosen = sasl(secured, "SIGNED", "OAUTHBEARER")
    chosen |= {"sasl_oauthbearer_extensions": {"traceId": "7"}}
    door = opener(**chosen, sasl_oauth_token_provider=lambda: jwt(secured.jwt_key, sub="dora"))
    with closing(door.open(endpoint(chosen["address"]), Deadline(30))) as connection:
        assert who_am_i(connection) == "dora"
        assert connection.login_due > 0
        door.log_in(connection, Deadline(30), again=True)
        assert who_am_i(connection) == "dora"


@pytest.mark.parametrize(
    "claims", [{"lasts": -60}, {"aud": "others"}, {"iss": "https://elsewhere.test"}], ids=str
)
def test_a_token_that_is_not_for_this_broker(secured: Secured, claims: dict[str, Any]) -> None:
    token = jwt(secured.jwt_key, **claims)
    chosen = sasl(secured, "SIGNED", "OAUTHBEARER")
    with pytest.raises(AuthenticationError, match="check the token's issuer") as refused:
        connect(**chosen, sasl_oauth_token_provider=lambda: token)
    assert "invalid_token" in str(refused.value)
    assert token not in f"{refused.value}{refused.value!r}{vars(refused.value)}"


def test_a_token_that_nobody_signed_is_refused_where_signatures_count(secured: Secured) -> None:
    with pytest.raises(AuthenticationError, match="invalid_token"):
        connect(
            **sasl(secured, "SIGNED", "OAUTHBEARER"), sasl_oauth_token_provider=lambda: jwt(None)
        )


def test_tokens_from_an_openid_provider(secured: Secured) -> None:
    made: list[str] = []

    def make() -> str:
        made.append(jwt(secured.jwt_key, sub="frank"))
        return made[-1]

    chosen = sasl(secured, "SIGNED", "OAUTHBEARER")
    with token_endpoint(secured.authority, make) as (url, logins):
        door = opener(
            **chosen,
            sasl_oauthbearer_token_endpoint_url=url,
            sasl_oauthbearer_client_id="frank",
            sasl_oauthbearer_client_secret=PASSWORD,
        )
        for _ in range(2):  # the second login uses the token of the first
            with closing(door.open(endpoint(chosen["address"]), Deadline(30))) as connection:
                assert who_am_i(connection) == "frank"
    assert len(made) == 1
    assert logins == [f"Basic {b64encode(f'frank:{PASSWORD}'.encode()).decode()}"]


# --- certificates of clients ---


@pytest.mark.parametrize("password", [None, PASSWORD], ids=["open", "encrypted"])
def test_a_client_certificate(secured: Secured, password: str | None) -> None:
    pair = secured.authority.issue("carol", hosts=(), password=password)
    chosen = {
        "security_protocol": "SSL",
        "ssl_cafile": secured.ca,
        "ssl_certfile": str(pair.certificate),
        "ssl_keyfile": str(pair.key),
        "ssl_password": password,
    }
    assert login_name(secured.kafka.listener("MTLS"), **chosen) == "CN=carol"


def test_a_client_certificate_and_its_key_in_one_file(secured: Secured) -> None:
    pair = secured.authority.issue("erin", hosts=())
    chosen = {"ssl_cafile": secured.ca, "ssl_certfile": str(pair.store)}
    address = secured.kafka.listener("MTLS")
    assert login_name(address, security_protocol="SSL", **chosen) == "CN=erin"

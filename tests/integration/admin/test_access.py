"""Who may do what: ACLs that forbid, passwords and tokens that log in, quotas that slow down."""

from __future__ import annotations

import pytest

from kclient import (
    QUOTA_ANY,
    QUOTA_DEFAULT,
    AclBinding,
    AclFilter,
    Admin,
    Producer,
    QuotaEntity,
    ScramCredential,
    ScramDeletion,
    ScramUpsert,
)
from kclient.errors import AuthenticationError, BrokerError, NotAuthorized, PartialFailure
from kclient.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kclient.records import encode
from kclient.testing import LocalKafka
from kclient.types import ProducerRecord

from ..exchange import Wire, new_name, now_ms, until
from .conftest import LISTENER, LogIn, login

# --- ACLs ---


def test_an_acl_permits_one_user_and_not_the_other(
    admin: Admin, solo: LocalKafka, log_in: LogIn, users: dict[str, str]
) -> None:
    topic = new_name("secret")
    admin.create_topic(topic, 1, 1)
    alice, bob = log_in("alice"), log_in("bob")
    for user in (alice, bob):
        assert topic not in user.list_topics()
    granted = [
        AclBinding("topic", topic, "User:alice", "write"),
        AclBinding("topic", "secret-", "User:alice", "describe", pattern_type="prefixed"),
        AclBinding("topic", topic, "User:bob", "describe"),
    ]
    assert admin.create_acls(granted) == dict.fromkeys(granted)
    until(lambda: topic in alice.list_topics() and topic in bob.list_topics(), "both may see it")
    with Producer(solo.listener(LISTENER), **login("alice", users["alice"])) as producer:
        assert producer.send(topic, b"by alice").offset == 0
        denied = AclBinding("topic", topic, "User:alice", "write", "deny")
        admin.create_acls([denied])
        until(lambda: is_refused(producer, topic), "a denial wins over a grant")
    options = login("bob", users["bob"])
    with Producer(solo.listener(LISTENER), **options) as producer, pytest.raises(NotAuthorized):
        producer.send(topic, b"by bob")
    with pytest.raises(PartialFailure) as caught:
        bob.delete_topics([topic])
    assert isinstance(caught.value.failures[topic], NotAuthorized)
    with pytest.raises(NotAuthorized, match="ACLs were not told.*CLUSTER_AUTHORIZATION_FAILED"):
        bob.describe_acls()


def is_refused(producer: Producer, topic: str) -> bool:
    try:
        producer.send(topic, b"more")
    except NotAuthorized:
        return True
    return False


def test_acls_are_found_and_deleted_by_filters(admin: Admin) -> None:
    name = new_name()
    read = AclBinding("topic", name, "User:carol", "read")
    prefix = AclBinding("topic", name[:8], "User:carol", "write", pattern_type="prefixed")
    group = AclBinding("group", name, "User:carol", "read", "deny", host="10.0.0.1")
    admin.create_acls([read, prefix, group])
    mine = AclFilter(principal="User:carol")
    until(lambda: set(admin.describe_acls(mine)) == {read, prefix, group}, "they are known")
    assert admin.describe_acls(AclFilter("group", permission="deny", host="10.0.0.1")) == [group]
    matching = AclFilter("topic", name, "User:carol", pattern_type="match")
    assert set(admin.describe_acls(matching)) == {read, prefix}
    nothing = AclFilter(principal="User:nobody")
    deleted = admin.delete_acls([group, matching, nothing])
    assert set(deleted[matching]) == {read, prefix}
    assert deleted[group] == [group]
    assert deleted[nothing] == []
    until(lambda: admin.describe_acls(mine) == [], "they are gone")


# --- SCRAM ---


def test_a_password_logs_in_until_it_is_taken_away(admin: Admin, log_in: LogIn) -> None:
    user = new_name("user")
    assert admin.alter_scram_credentials(
        [
            ScramUpsert(user, "SCRAM-SHA-256", "first", iterations=4096),
            ScramUpsert(user, "SCRAM-SHA-512", "first"),
        ]
    ) == {user: None}
    until(lambda: can_log_in(log_in, user, "first"), "the broker knows")
    assert not can_log_in(log_in, user, "wrong")
    assert set(admin.describe_scram_credentials([user])[user]) == {
        ScramCredential("SCRAM-SHA-256", 4096),
        ScramCredential("SCRAM-SHA-512", 8192),
    }
    assert user in admin.describe_scram_credentials()
    admin.alter_scram_credentials([ScramUpsert(user, "SCRAM-SHA-256", "second")])
    until(lambda: can_log_in(log_in, user, "second"), "the broker knows")
    assert not can_log_in(log_in, user, "first")
    admin.alter_scram_credentials(
        [ScramDeletion(user, "SCRAM-SHA-256"), ScramDeletion(user, "SCRAM-SHA-512")]
    )
    until(lambda: not can_log_in(log_in, user, "second"), "the broker knows")
    with pytest.raises(PartialFailure) as caught:
        admin.describe_scram_credentials([user])
    assert "RESOURCE_NOT_FOUND" in str(caught.value.failures[user])


def can_log_in(log_in: LogIn, user: str, password: str) -> bool:
    try:
        log_in(user, password).list_topics()
    except AuthenticationError:
        return False
    return True


# --- delegation tokens ---


def test_a_token_logs_in_as_its_owner(admin: Admin, log_in: LogIn) -> None:
    topic = new_name()
    admin.create_acls([AclBinding("topic", topic, "User:alice", "all")])
    alice, bob = log_in("alice"), log_in("bob")
    token = alice.create_delegation_token(renewers=["User:bob"], max_lifetime_ms=3_600_000)
    assert (token.owner, token.renewers) == ("User:alice", ("User:bob",))
    assert token.max_timestamp - token.issue_timestamp == 3_600_000
    assert token.password not in repr(token)
    until(lambda: alice.describe_delegation_tokens() == [token], "the broker knows")
    by_token = log_in(token.token_id, token.password, sasl_scram_token_auth=True)
    assert by_token.create_topic(topic, 1, 1).name == topic
    with pytest.raises(BrokerError, match="DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"):
        by_token.create_delegation_token()
    assert bob.describe_delegation_tokens(["User:alice"]) == [token]
    renewed = bob.renew_delegation_token(token, renew_period_ms=60_000)
    assert renewed < token.expiry_timestamp
    alice.expire_delegation_token(token.hmac)
    until(lambda: alice.describe_delegation_tokens() == [], "it has ended")
    with pytest.raises(AuthenticationError):
        log_in(token.token_id, token.password, sasl_scram_token_auth=True).list_topics()


def test_a_token_needs_a_login(admin: Admin) -> None:
    with pytest.raises(BrokerError, match="DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"):
        admin.create_delegation_token()


# --- quotas ---


def throttle_ms(kafka: LocalKafka, topic: str) -> int:
    """For how long the broker slows a client down that writes 100 kB."""
    batch = encode([ProducerRecord(topic, b"x" * 100_000, timestamp_ms=now_ms())])
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=0, records=batch)]
    )
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
    with Wire(kafka.bootstrap_servers) as wire:  # its client id is "kclient-tests"
        return wire.ask(request, ProduceResponse, 9).throttle_time_ms


def test_a_quota_throttles(admin: Admin, solo: LocalKafka) -> None:
    topic = new_name()
    admin.create_topic(topic, 1, 1)
    slow = QuotaEntity(client_id="kclient-tests")
    assert throttle_ms(solo, topic) == 0
    admin.alter_client_quotas({slow: {"producer_byte_rate": 1000}})
    try:
        until(lambda: throttle_ms(solo, topic) > 0, "the broker slows down")
        found = admin.describe_client_quotas(client_id="kclient-tests")
        assert found == {slow: {"producer_byte_rate": 1000.0}}
    finally:
        admin.alter_client_quotas({slow: {"producer_byte_rate": None}})
    until(lambda: throttle_ms(solo, topic) == 0, "the broker is quick again")
    assert admin.describe_client_quotas(client_id="kclient-tests") == {}


def test_quotas_are_found_by_their_parts(admin: Admin) -> None:
    name = new_name()
    both = QuotaEntity(user=name, client_id="app")
    alone = QuotaEntity(user=name)
    default = QuotaEntity(client_id=QUOTA_DEFAULT)
    rates = {"consumer_byte_rate": 5e6, "request_percentage": 200.0}
    admin.alter_client_quotas({both: rates}, validate_only=True)
    assert admin.alter_client_quotas(
        {both: rates, alone: {"producer_byte_rate": 1e6}, default: {"request_percentage": 1000}}
    ) == {both: None, alone: None, default: None}
    until(lambda: len(admin.describe_client_quotas(user=name)) == 2, "the broker knows")
    assert admin.describe_client_quotas(user=name, strict=True) == {
        alone: {"producer_byte_rate": 1e6}
    }
    assert admin.describe_client_quotas(user=QUOTA_ANY, client_id="app") == {both: rates}
    assert admin.describe_client_quotas(client_id=QUOTA_DEFAULT, strict=True) == {
        default: {"request_percentage": 1000.0}
    }
    assert admin.describe_client_quotas().keys() >= {both, alone, default}
    with pytest.raises(PartialFailure) as caught:
        admin.alter_client_quotas({alone: {"no_such_rate": 1}})
    assert "INVALID_REQUEST" in str(caught.value.failures[alone])
    admin.alter_client_quotas(
        {
            both: dict.fromkeys(rates),
            alone: {"producer_byte_rate": None},
            default: {"request_percentage": None},
        }
    )

"""Options as keywords: what is checked, what is said, what is never shown."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from kclient.config import (
    AdminOptions,
    ClientOptions,
    ConsumerOptions,
    ProducerOptions,
    declared,
    parse_servers,
    resolve,
)
from kclient.errors import ConfigError

KINDS = (AdminOptions, ConsumerOptions, ProducerOptions)


def options(**given: Any) -> Any:
    return resolve(ProducerOptions, {"bootstrap_servers": "b:9092", **given})


def refused(**given: Any) -> str:
    with pytest.raises(ConfigError) as got:
        options(**given)
    error: Any = pickle.loads(pickle.dumps(got.value))
    assert error.option == next(iter(given))
    return str(error)


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_has_a_default_that_it_would_accept(kind: type) -> None:
    resolved: Any = resolve(kind, {"bootstrap_servers": "b"})
    assert set(resolved) == set(declared(kind))
    for name, entry in declared(kind).items():
        assert entry.dotted[0] == name.replace("_", ".")
        # The same value, but not the same object, is checked as if a user had given it.
        value = resolved[name]
        given = pickle.loads(pickle.dumps(value)) if name != "bootstrap_servers" else "c"
        resolve(kind, {"bootstrap_servers": "b", name: given})


@pytest.mark.parametrize("kind", KINDS)
def test_no_two_options_share_a_dotted_name(kind: type) -> None:
    names = [name for entry in declared(kind).values() for name in set(entry.dotted)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_looks_like_a_secret_is_one(kind: type) -> None:
    for name, entry in declared(kind).items():
        looks = any(word in name for word in ("password", "secret")) and "id" not in name
        assert entry.option.secret or not looks, name


def test_unknown_options_name_the_nearest() -> None:
    assert refused(linger=5) == "unknown option 'linger'; did you mean 'linger_ms'?"
    assert "did you mean 'compression_type'" in refused(compresion_type="lz4")
    assert "see the client's documentation" in refused(xyzzy=1)


def test_bootstrap_servers_is_required() -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers is required"):
        resolve(ClientOptions, {})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"batch_size": "64"}, "batch_size must be a whole number, not '64'"),
        ({"batch_size": 1.5}, "batch_size must be a whole number, not 1.5"),
        ({"batch_size": True}, "batch_size must be a whole number, not True"),
        ({"enable_idempotence": 1}, "enable_idempotence must be True or False, not 1"),
        ({"client_id": None}, "client_id must be a string, not None"),
        ({"compression_type": 3}, "compression_type must be a string or None, not 3"),
        ({"value_serializer": "str"}, "value_serializer must be a callable or None, not 'str'"),
        ({"api_version_caps": {"Fetch": "11"}}, "a mapping from a string to a whole number"),
        ({"bootstrap_servers": ["a", 1]}, "bootstrap_servers must be a string or a list"),
        ({"batch_size": 0}, "batch_size must be at least 1, not 0"),
        ({"linger_ms": float("nan")}, "linger_ms must be at least 0, not nan"),
        ({"acks": 2}, "acks must be from -1 to 1, not 2"),
        ({"acks": "some"}, "acks must be one of 'all', not 'some'"),
        ({"receive_message_max_bytes": 1 << 31}, "from 1024 to 2.14748e+09"),
        ({"security_protocol": "TLS"}, "must be one of 'PLAINTEXT', 'SSL', 'SASL_PLAINTEXT'"),
    ],
)
def test_wrong_values_are_told_with_what_would_be_right(
    given: dict[str, Any], sentence: str
) -> None:
    assert sentence in refused(**given)


def test_right_values_stay_as_they_are() -> None:
    given = {"linger_ms": 0.5, "acks": 1, "bootstrap_servers": ["a", "b"], "partitioner": max}
    resolved = options(**given)
    assert {name: resolved[name] for name in given} == given


def test_secrets_are_in_the_values_and_nowhere_else() -> None:
    resolved = options(sasl_plain_username="alice", sasl_plain_password="Sw0rdfish")
    assert resolved["sasl_plain_password"] == "Sw0rdfish"
    for shown in (repr(resolved), str(resolved), f"{resolved}", repr([resolved])):
        assert "Sw0rdfish" not in shown
        assert "sasl_plain_password=[hidden]" in shown
        assert "sasl_plain_username='alice'" in shown
        assert "ssl_password=None" in shown  # that there is none is no secret


def test_a_secret_of_the_wrong_type_is_not_shown_either() -> None:
    assert refused(ssl_password=12345678).endswith("must be a string or None, not [hidden]")


def test_options_travel_to_another_process_and_still_hide_secrets() -> None:
    resolved = options(sasl_plain_password="Sw0rdfish")
    again = pickle.loads(pickle.dumps(resolved))
    assert again == resolved
    assert "Sw0rdfish" not in repr(again)


@pytest.mark.parametrize(
    ("given", "servers"),
    [
        ("a:9092,b:9093", [("a", 9092), ("b", 9093)]),
        (" a , b:1 ,", [("a", 9092), ("b", 1)]),
        (["a:1", "a:1", "b:2"], [("a", 1), ("b", 2)]),
        ("[::1]:9094,[fe80::1%eth0]", [("::1", 9094), ("fe80::1%eth0", 9092)]),
        ("SASL_SSL://kafka-1.example.org:9093", [("kafka-1.example.org", 9093)]),
        ("kafka_1.intern.", [("kafka_1.intern.", 9092)]),
    ],
)
def test_addresses(given: str | list[str], servers: list[tuple[str, int]]) -> None:
    assert parse_servers(given) == servers


@pytest.mark.parametrize(
    "wrong", ["a:b", "a:0", "a:65536", "::1", "[::1", "a b:9092", "http://a:80/x", "a:9092;b", ":1"]
)
def test_what_is_no_address(wrong: str) -> None:
    with pytest.raises(ConfigError, match="is not host:port"):
        parse_servers(wrong)


@pytest.mark.parametrize("empty", ["", " , ", []])
def test_no_address_at_all(empty: str | list[str]) -> None:
    with pytest.raises(ConfigError, match="names no broker"):
        parse_servers(empty)

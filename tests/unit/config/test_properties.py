"""Options by dotted names, as the files of other clients have them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from kclient.config import AdminOptions, ConsumerOptions, ProducerOptions, from_properties, resolve
from kclient.errors import ConfigError

JAAS = "org.apache.kafka.common.security"

JAVA = r"""
# a producer
! and another comment \
bootstrap.servers = broker-1:9093,\
                    broker-2:9093
acks=all
linger.ms: 20
compression.type zstd
enable.idempotence=TRUE
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
    username="alice" \
    password="Sw0rd\\"fish;\u00e9";
ssl.truststore.type=PEM
ssl.truststore.location=/etc/kafka/ca.pem
ssl.truststore.password=unused
key.serializer=org.apache.kafka.common.serialization.StringSerializer
retries=2147483647
"""


def test_a_java_producers_file(tmp_path: Path) -> None:
    file = tmp_path / "producer.properties"
    file.write_text(JAVA, encoding="utf-8")
    found = from_properties(ProducerOptions, file)
    assert found == {
        "bootstrap_servers": "broker-1:9093,broker-2:9093",
        "acks": "all",
        "linger_ms": 20.0,
        "compression_type": "zstd",
        "enable_idempotence": True,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": 'Sw0rd"fish;é',
        "ssl_cafile": "/etc/kafka/ca.pem",
    }
    assert "Sw0rd" not in repr(resolve(ProducerOptions, found))


def test_librdkafkas_spellings() -> None:
    found = from_properties(
        ConsumerOptions,
        {
            "metadata.broker.list": "b:9092",
            "security.protocol": "sasl_plaintext",
            "sasl.mechanisms": "plain",
            "sasl.username": "alice",
            "sasl.password": " Sw0rdfish ",
            "auto.offset.reset": "smallest",
            "fetch.wait.max.ms": 100,
            "partition.assignment.strategy": "range,roundrobin",
            "socket.timeout.ms": "1000",
            "statistics.interval.ms": 5000,
            "debug": "broker",
        },
    )
    assert found == {
        "bootstrap_servers": "b:9092",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": " Sw0rdfish ",  # blanks may be part of it
        "auto_offset_reset": "earliest",
        "fetch_max_wait_ms": 100,
        "partition_assignment_strategy": ("range", "roundrobin"),
        "request_timeout_ms": 1000,
    }
    resolve(ConsumerOptions, found)


def test_javas_assignors_are_classes() -> None:
    package = "org.apache.kafka.clients.consumer"
    names = f"{package}.RangeAssignor, {package}.CooperativeStickyAssignor"
    found = from_properties(ConsumerOptions, {"partition.assignment.strategy": names})
    assert found == {"partition_assignment_strategy": ("range", "cooperative-sticky")}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            f'{JAAS}.plain.PlainLoginModule required username=alice password="a b";',
            {"sasl_plain_username": "alice", "sasl_plain_password": "a b"},
        ),
        (
            f'{JAAS}.scram.ScramLoginModule required username="id" password="hmac" tokenauth=true;',
            {
                "sasl_plain_username": "id",
                "sasl_plain_password": "hmac",
                "sasl_scram_token_auth": True,
            },
        ),
        (
            f"{JAAS}.oauthbearer.OAuthBearerLoginModule required clientId='x' scope=\"all\";",
            {"sasl_oauthbearer_client_id": "'x'", "sasl_oauthbearer_scope": "all"},
        ),
        (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
            'keyTab="/etc/k.keytab" principal="me@REALM" serviceName="kafka";',
            {
                "sasl_kerberos_keytab": "/etc/k.keytab",
                "sasl_kerberos_principal": "me@REALM",
                "sasl_kerberos_service_name": "kafka",
            },
        ),
    ],
    ids=["plain", "token", "oauth", "kerberos"],
)
def test_the_login_of_a_jaas_line(line: str, found: dict[str, Any]) -> None:
    assert from_properties(AdminOptions, {"sasl.jaas.config": line}) == found


@pytest.mark.parametrize(("value", "checks"), [("", False), ("none", False), ("https", True)])
def test_the_check_of_the_host_name(value: str, checks: bool) -> None:
    given = {"ssl.endpoint.identification.algorithm": value}
    assert from_properties(AdminOptions, given) == {"ssl_check_hostname": checks}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"linger": "1"}, "unknown property 'linger'; did you mean 'linger.ms'"),
        ({"linger.ms": "soon"}, "linger.ms='soon' is not what linger_ms takes"),
        ({"enable.idempotence": "yes"}, "enable.idempotence='yes' is not what"),
        ({"api.version.caps": "Fetch=11"}, "api.version.caps='Fetch=11' is not what"),
        ({"ssl.keystore.type": "JKS"}, "kclient reads PEM files only; convert the store"),
        ({"ssl.truststore.location": "/x/trust.jks"}, "kclient reads PEM files only"),
        ({"config.providers": "file"}, "kclient replaces no ${...}"),
        ({"partitioner.class": "com.example.Mine"}, "kclient's own option: partitioner"),
        ({"enable.auto.offset.store": "false"}, "commit them yourself"),
    ],
)
def test_what_cannot_be_meant_is_told(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as got:
        from_properties(ProducerOptions, given)
    assert sentence in str(got.value)


def test_caps_have_a_spelling_in_files() -> None:
    given = {"api.version.caps": "Fetch:11, Produce:8"}
    found = from_properties(ProducerOptions, given)
    assert found == {"api_version_caps": {"Fetch": 11, "Produce": 8}}


def test_what_has_no_meaning_is_logged_by_its_name_only(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert from_properties(AdminOptions, {"ssl.keystore.password": "Sw0rdfish"}) == {}
    assert "ssl.keystore.password has no meaning for kclient" in caplog.text
    assert "Sw0rdfish" not in caplog.text


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(ConfigError, match=f"the properties file {path} cannot be read"):
            from_properties(AdminOptions, path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        from_properties(AdminOptions, tmp_path / "binary")


def test_an_escape_that_is_cut_short(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(r"client.id=\u00e")
    with pytest.raises(ConfigError, match="without its four hex digits"):
        from_properties(AdminOptions, tmp_path / "file")

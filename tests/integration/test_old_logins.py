"""Logins to brokers of every age: bare tokens before 1.0, and hanging up in place of errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kclient.errors import AuthenticationError, KafkaError, TransportError
from kclient.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kclient.testing import LocalKafka

from .logins import PASSWORD, connect
from .test_logins import speaks

pytestmark = pytest.mark.every_kafka
LOGIN: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": PASSWORD,
}


@pytest.fixture(
    scope="module",
    params=["0.10.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.0.1", "2.4.1", "2.8.2", "3.9.1"],
)
def kafka(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    local_kafka_factory: Callable[..., LocalKafka],
) -> Iterator[LocalKafka]:
    """Before 1.1, the users are in a file for the whole JVM."""
    file = Path(tmp_path_factory.mktemp("jaas"), "jaas.conf")
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    file.write_text(f'KafkaServer {{ {module} required user_alice="{PASSWORD}"; }};\n')
    found = local_kafka_factory(
        request.param,
        listeners={"SASL_PLAINTEXT": {}},
        properties={"sasl.enabled.mechanisms": "PLAIN"},
        jvm_flags=[f"-Djava.security.auth.login.config={file}"],
    )
    yield found
    found.close()


def is_before_1_0(kafka: LocalKafka) -> bool:
    return kafka.version.startswith("0.")


def test_a_name_and_a_password(kafka: LocalKafka) -> None:
    with closing(connect(kafka.listener("SASL_PLAINTEXT"), **LOGIN)) as connection:
        assert speaks(connection)
        wrapped = SaslAuthenticateRequest.API_KEY in connection.versions.ranges
        assert wrapped != is_before_1_0(kafka)


def test_a_wrong_password(kafka: LocalKafka) -> None:
    wrong = {**LOGIN, "sasl_plain_password": "wrong-word"}
    kind: type[KafkaError] = TransportError if is_before_1_0(kafka) else AuthenticationError
    with pytest.raises(kind, match="logging in as user 'alice' by PLAIN") as refused:
        connect(kafka.listener("SASL_PLAINTEXT"), **wrong)
    hint = "Brokers before Kafka 1.0 refuse a login so"
    assert (hint if is_before_1_0(kafka) else "check the name and the password") in str(
        refused.value
    )


def test_a_mechanism_that_is_not_offered(kafka: LocalKafka) -> None:
    other = {**LOGIN, "sasl_mechanism": "SCRAM-SHA-256"}
    with pytest.raises(AuthenticationError, match="it offers: PLAIN"):
        connect(kafka.listener("SASL_PLAINTEXT"), **other)

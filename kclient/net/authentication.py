"""The login on a connection: the handshake names the mechanism, then its tokens go to and fro.

Brokers since 1.0 carry tokens in SaslAuthenticate (KIP-152) and say why a login fails; those
before it exchange bare tokens and hang up instead.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Protocol, cast

from kclient.deadline import Deadline
from kclient.errors import AuthenticationError, TransportError, broker_error
from kclient.protocol import Message
from kclient.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kclient.protocol.negotiate import Versions
from kclient.protocol.sasl import Mechanism

_UNSUPPORTED_MECHANISM, _ILLEGAL_STATE, _FAILED = 33, 34, 58
_LONGEST_REASON = 300
_PASSWORD = "check the name and the password"  # noqa: S105
_SCRAM = f"{_PASSWORD}, and that the broker has SCRAM credentials of this kind for it"
_ADVICE = {
    "PLAIN": _PASSWORD,
    "SCRAM-SHA-256": _SCRAM,
    "SCRAM-SHA-512": _SCRAM,
    "OAUTHBEARER": "check the token's issuer, audience, scope and end",
    "GSSAPI": "check the ticket (klist), sasl_kerberos_service_name and the broker's keytab",
    "AWS_MSK_IAM": "check the credentials, sasl_aws_region, kafka-cluster:Connect and the clock",
}


class Asks(Protocol):
    """What a login needs of a connection."""

    address: str

    def ask(self, request: Message, version: int, deadline: Deadline) -> Message:
        """One round trip."""
        ...

    def ask_raw(self, token: bytes, deadline: Deadline) -> bytes:
        """One round trip of bare frames: a token each way, without headers."""
        ...


def authenticate(
    connection: Asks,
    mechanism: Mechanism,
    versions: Versions,
    deadline: Deadline,
    *,
    again: bool = False,
) -> float:
    """Log in, or ``again`` before a session ends (KIP-368).

    Returns the seconds this session may last, 0 for ever. Nobody else may use the connection
    meanwhile, and after an error it is of no use. Raises AuthenticationError if either side
    refuses the other, TransportError if the broker hangs up, KafkaTimeout, UnsupportedVersion.
    """
    return _Login(connection, mechanism, versions, deadline, again).run()


class _Login:
    """One login, with what its messages need to know."""

    def __init__(
        self,
        connection: Asks,
        mechanism: Mechanism,
        versions: Versions,
        deadline: Deadline,
        again: bool,
    ) -> None:
        self._connection = connection
        self._mechanism = mechanism
        self._versions = versions
        self._deadline = deadline
        self._lifetime_ms = 0
        self._again = again
        times = " again" if again else ""
        who = f"{mechanism.identity} by {mechanism.name}"
        self._what = f"{connection.address}: logging in{times} as {who}"

    def run(self) -> float:
        try:
            carry = self._handshake()
            with closing(self._mechanism.exchange()) as exchange:
                token = next(exchange)
                while True:
                    try:
                        token = exchange.send(carry(token))
                    except StopIteration:
                        return self._lifetime_ms / 1000
        except AuthenticationError as error:
            raise self._told(error) from error.__cause__
        except TransportError as error:
            raise self._hung_up(error) from error

    def _handshake(self) -> Callable[[bytes], bytes]:
        """Agree on the mechanism; returns what carries a token to the broker and back."""
        wrapped = SaslAuthenticateRequest.API_KEY in self._versions.ranges
        version = self._versions.choose(SaslHandshakeRequest, at_most=None if wrapped else 0)
        request = SaslHandshakeRequest(mechanism=self._mechanism.name)
        answer = cast(SaslHandshakeResponse, self._connection.ask(request, version, self._deadline))
        if answer.error_code:
            raise self._no_handshake(answer)
        return self._carry if version else self._carry_raw

    def _carry(self, token: bytes) -> bytes:
        version = self._versions.choose(SaslAuthenticateRequest)
        request = SaslAuthenticateRequest(auth_bytes=token)
        answer = cast(
            SaslAuthenticateResponse, self._connection.ask(request, version, self._deadline)
        )
        if answer.error_code:
            raise self._refused(answer)
        self._lifetime_ms = answer.session_lifetime_ms
        return bytes(answer.auth_bytes)

    def _carry_raw(self, token: bytes) -> bytes:
        return self._connection.ask_raw(token, self._deadline)

    def _no_handshake(self, answer: SaslHandshakeResponse) -> AuthenticationError:
        if answer.error_code == _UNSUPPORTED_MECHANISM:
            offered = ", ".join(answer.mechanisms) or "none"
            return AuthenticationError(
                f"the broker does not offer this mechanism on this port; it offers: {offered}. "
                "Set sasl_mechanism to one of them",
                offered=tuple(answer.mechanisms),
            )
        if answer.error_code == _ILLEGAL_STATE and self._again:
            return AuthenticationError(
                "the broker takes no login again now; it wants a second between two of them"
            )
        if answer.error_code == _ILLEGAL_STATE:
            return AuthenticationError(
                "this port takes no SASL login; set security_protocol to PLAINTEXT or SSL, or "
                "use the broker's SASL port"
            )
        return AuthenticationError(str(broker_error(answer.error_code, "no handshake")))

    def _refused(self, answer: SaslAuthenticateResponse) -> AuthenticationError:
        reason = (answer.error_message or "").strip()[:_LONGEST_REASON]
        if answer.error_code != _FAILED:
            reason = str(broker_error(answer.error_code, reason or "no reason given"))
        said = f"the broker refused: {reason!r}" if reason else "the broker refused"
        return AuthenticationError(f"{said}; {_ADVICE.get(self._mechanism.name, _PASSWORD)}")

    def _told(self, error: AuthenticationError) -> AuthenticationError:
        """The same error, with where, who and how in front."""
        context = {
            "address": self._connection.address,
            "mechanism": self._mechanism.name,
            "stage": "sasl",
        }
        return AuthenticationError(f"{self._what}: {error}", **{**vars(error), **context})

    def _hung_up(self, error: TransportError) -> TransportError:
        return TransportError(
            f"{self._what}: the connection ended in the middle ({error}). Brokers before Kafka 1.0 "
            "refuse a login so; otherwise the broker went down, or is it a TLS port?",
            address=self._connection.address,
            mechanism=self._mechanism.name,
            stage="sasl",
        )

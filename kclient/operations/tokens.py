"""Delegation tokens: logins that end by themselves (KIP-48)."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field

from kclient.cluster.call import Call
from kclient.errors import InvalidRequest
from kclient.operations.given import need, several
from kclient.operations.many import CONTROLLER_CODES, check, reading
from kclient.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kclient.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kclient.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kclient.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

_BY_BROKER = -1


@dataclass(frozen=True)
class DelegationToken:
    """A token; times are ms since the epoch. No repr shows its ``hmac``.

    To log in with it: ``sasl_mechanism="SCRAM-SHA-256"``, ``sasl_scram_token_auth=True``,
    ``token_id`` as the user name and ``password`` as the password.
    """

    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int
    requester: str | None = None
    renewers: tuple[str, ...] = ()

    @property
    def password(self) -> str:
        """The HMAC as text."""
        return base64.b64encode(self.hmac).decode()


def _principal(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not colon or not name:
        raise InvalidRequest(f"a principal is 'User:name', not {text!r}")
    return kind, name


def create(
    renewers: Iterable[str], owner: str | None, max_lifetime_ms: int | None
) -> Call[DelegationToken]:
    """A new token, of this user or of another ``owner`` (since Kafka 3.3)."""
    pairs = [_principal(each) for each in several(renewers, "renewers")]
    whose = None if owner is None else _principal(owner)

    def build(version: int) -> CreateDelegationTokenRequest:
        request = CreateDelegationTokenRequest(
            renewers=[
                CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in pairs
            ],
            max_lifetime_ms=_BY_BROKER if max_lifetime_ms is None else max_lifetime_ms,
        )
        if whose is not None:
            need(version, 3, "make a token for another user", "3.3")
            request.owner_principal_type, request.owner_principal_name = whose
        elif version >= 3:
            request.owner_principal_type = request.owner_principal_name = None
        return request

    def read(answer: CreateDelegationTokenResponse) -> DelegationToken:
        check(answer.error_code, "no delegation token was made", again=CONTROLLER_CODES)
        requester = answer.token_requester_principal_name
        return DelegationToken(
            answer.token_id,
            answer.hmac,
            f"{answer.principal_type}:{answer.principal_name}",
            answer.issue_timestamp_ms,
            answer.expiry_timestamp_ms,
            answer.max_timestamp_ms,
            f"{answer.token_requester_principal_type}:{requester}" if requester else None,
            tuple(f"{kind}:{name}" for kind, name in pairs),
        )

    return Call(CreateDelegationTokenRequest, build, reading(CreateDelegationTokenResponse, read))


def hmac_of(token: DelegationToken | bytes) -> bytes:
    """What renewing and expiring need of a token."""
    return token.hmac if isinstance(token, DelegationToken) else token


def renew(hmac: bytes, period_ms: int | None) -> Call[int]:
    """Let a token live longer; the result is when it ends."""

    def build(version: int) -> RenewDelegationTokenRequest:
        period = _BY_BROKER if period_ms is None else period_ms
        return RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period)

    def read(answer: RenewDelegationTokenResponse) -> int:
        check(answer.error_code, "the delegation token was not renewed", again=CONTROLLER_CODES)
        return answer.expiry_timestamp_ms

    return Call(RenewDelegationTokenRequest, build, reading(RenewDelegationTokenResponse, read))


def expire(hmac: bytes, period_ms: int | None) -> Call[int]:
    """Let a token end at once, or after a while; the result is when."""

    def build(version: int) -> ExpireDelegationTokenRequest:
        period = _BY_BROKER if period_ms is None else period_ms
        return ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period)

    def read(answer: ExpireDelegationTokenResponse) -> int:
        check(answer.error_code, "the delegation token was not expired", again=CONTROLLER_CODES)
        return answer.expiry_timestamp_ms

    return Call(ExpireDelegationTokenRequest, build, reading(ExpireDelegationTokenResponse, read))


def describe(owners: Iterable[str] | None) -> Call[list[DelegationToken]]:
    """The tokens of these principals, or all that this user may see."""
    pairs = None if owners is None else [_principal(each) for each in several(owners, "owners")]

    def build(version: int) -> DescribeDelegationTokenRequest:
        rows = None
        if pairs is not None:
            rows = [
                DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
                for kind, name in pairs
            ]
        return DescribeDelegationTokenRequest(owners=rows)

    def read(answer: DescribeDelegationTokenResponse) -> list[DelegationToken]:
        check(answer.error_code, "delegation tokens were not told")
        return [_token(row) for row in answer.tokens]

    return Call(
        DescribeDelegationTokenRequest, build, reading(DescribeDelegationTokenResponse, read)
    )


def _token(row: DescribedDelegationToken) -> DelegationToken:
    requester = row.token_requester_principal_name
    return DelegationToken(
        row.token_id,
        row.hmac,
        f"{row.principal_type}:{row.principal_name}",
        row.issue_timestamp,
        row.expiry_timestamp,
        row.max_timestamp,
        f"{row.token_requester_principal_type}:{requester}" if requester else None,
        tuple(f"{each.principal_type}:{each.principal_name}" for each in row.renewers),
    )

"""SCRAM credentials of users, which brokers keep without the password (KIP-554)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kclient.cluster.call import Call
from kclient.errors import InvalidRequest, KafkaError
from kclient.operations.given import code_of, name_of, several
from kclient.operations.many import (
    CONTROLLER_CODES,
    CallFor,
    Many,
    Results,
    check,
    failed,
    outcome,
    reading,
)
from kclient.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kclient.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    UserName,
)

ScramMechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
_MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_FEWEST, _MOST = 4096, 16384
_SALT_BYTES = 24
_RESOURCE_NOT_FOUND = 91


@dataclass(frozen=True)
class ScramCredential:
    """A login that a user has: by which mechanism, hashed how many times."""

    mechanism: str
    iterations: int


@dataclass(frozen=True)
class ScramUpsert:
    """A password to set. ``iterations`` are 4,096 to 16,384, as brokers want it.

    The password does not leave this process, and no repr shows it. Raises InvalidRequest.
    """

    user: str
    mechanism: ScramMechanism
    password: str | bytes = field(repr=False)
    iterations: int = 8192
    salt: bytes = field(default_factory=lambda: secrets.token_bytes(_SALT_BYTES), repr=False)

    def __post_init__(self) -> None:
        _check(self.user, self.mechanism)
        if not self.password:
            raise InvalidRequest(f"user {self.user!r}: the password is empty")
        if not _FEWEST <= self.iterations <= _MOST:
            raise InvalidRequest(
                f"user {self.user!r}: iterations are from {_FEWEST} to {_MOST}, "
                f"not {self.iterations}"
            )

    @property
    def salted_password(self) -> bytes:
        """What a broker keeps of the password (RFC 5802)."""
        plain = self.password.encode() if isinstance(self.password, str) else self.password
        name = _HASHES[self.mechanism]
        return hashlib.pbkdf2_hmac(name, plain, self.salt, self.iterations)


@dataclass(frozen=True)
class ScramDeletion:
    """A login to take away."""

    user: str
    mechanism: ScramMechanism

    def __post_init__(self) -> None:
        _check(self.user, self.mechanism)


def _check(user: str, mechanism: str) -> None:
    if not user:
        raise InvalidRequest("a user's name is not empty")
    code_of(_MECHANISMS, mechanism, "SCRAM mechanism")


# --- describe ---


def describe(
    users: Iterable[str] | None,
) -> Call[Results[str, tuple[ScramCredential, ...]]]:
    """The logins of users, or of all who have one."""
    names = None if users is None else several(users, "user names")

    def build(version: int) -> DescribeUserScramCredentialsRequest:
        rows = None if names is None else [UserName(name=name) for name in names]
        return DescribeUserScramCredentialsRequest(users=rows)

    def read(
        answer: DescribeUserScramCredentialsResponse,
    ) -> Results[str, tuple[ScramCredential, ...]]:
        what = "credentials were not told"
        check(answer.error_code, what, answer.error_message, again=CONTROLLER_CODES)
        return {row.user: _credentials(row) for row in answer.results}

    return Call(
        DescribeUserScramCredentialsRequest,
        build,
        reading(DescribeUserScramCredentialsResponse, read),
    )


def _credentials(
    row: DescribeUserScramCredentialsResult,
) -> tuple[ScramCredential, ...] | KafkaError:
    if row.error_code:
        what = f"user {row.user!r} has no SCRAM credentials to tell"
        return failed(row.error_code, what, row.error_message)
    return tuple(
        ScramCredential(name_of(_MECHANISMS, each.mechanism), each.iterations)
        for each in row.credential_infos
    )


# --- alter ---


Change = ScramUpsert | ScramDeletion


def rounds(given: Iterable[Change]) -> list[Many[str, None]]:
    """Set passwords and take logins away; the items are users, who each succeed or fail.

    Brokers take one change of a user in a request: a second one goes into a second request.
    """
    turns: list[dict[str, Change]] = []
    for change in several(given, "ScramUpsert or ScramDeletion"):
        for turn in turns:
            if change.user not in turn:
                turn[change.user] = change
                break
            if turn[change.user].mechanism == change.mechanism:
                raise InvalidRequest(f"user {change.user!r}: {change.mechanism} is changed twice")
        else:
            turns.append({change.user: change})
    return [_alter(turn) for turn in turns]


def _alter(changes: Mapping[str, Change]) -> Many[str, None]:
    def call(items: Sequence[str], timeout_ms: int) -> CallFor[str, None]:
        wanted = [changes[item] for item in items]

        def build(version: int) -> AlterUserScramCredentialsRequest:
            return AlterUserScramCredentialsRequest(
                deletions=[_deletion(each) for each in wanted if isinstance(each, ScramDeletion)],
                upsertions=[_upsertion(each) for each in wanted if isinstance(each, ScramUpsert)],
            )

        read = reading(AlterUserScramCredentialsResponse, _altered)
        return Call(AlterUserScramCredentialsRequest, build, read)

    return Many("altering SCRAM credentials", list(changes), call)


def _deletion(change: ScramDeletion) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=change.user, mechanism=_MECHANISMS[change.mechanism])


def _upsertion(change: ScramUpsert) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=change.user,
        mechanism=_MECHANISMS[change.mechanism],
        iterations=change.iterations,
        salt=change.salt,
        salted_password=change.salted_password,
    )


def _altered(answer: AlterUserScramCredentialsResponse) -> Results[str, None]:
    return {
        row.user: outcome(
            row.error_code,
            f"the credentials of user {row.user!r} were not altered",
            row.error_message,
            again=CONTROLLER_CODES,
        )
        for row in answer.results
    }

"""AWS_MSK_IAM: a request to connect, signed with AWS credentials on this machine."""

from __future__ import annotations

import json
from collections.abc import Generator
from datetime import datetime
from typing import NamedTuple

from kclient.errors import AuthenticationError
from kclient.protocol.sasl import sigv4

_VERSION = "2020_10_22"
_SERVICE = "kafka-cluster"
_ACTION = "kafka-cluster:Connect"
_VALID_SECONDS = "900"


class AwsCredentials(NamedTuple):
    """A key of AWS; ``session_token`` comes with temporary ones. Its repr hides the secrets."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None

    def __repr__(self) -> str:
        return f"AwsCredentials({self.access_key_id!r}, [hidden])"


class MskIam:
    """Log in to the broker ``host`` of Amazon MSK. ``now`` knows its time zone."""

    name = "AWS_MSK_IAM"

    def __init__(
        self,
        host: str,
        region: str,
        credentials: AwsCredentials,
        now: datetime,
        *,
        user_agent: str = "kclient",
    ) -> None:
        self.identity = f"AWS access key {credentials.access_key_id!r}"
        self._token = _payload(host, region, credentials, sigv4.timestamp(now), user_agent)

    def exchange(self) -> Generator[bytes, bytes, None]:
        """One token. The broker's answer names the version and a request id.

        Raises AuthenticationError.
        """
        answer = yield self._token
        try:
            version = json.loads(answer)["version"]
        except (ValueError, TypeError, KeyError):
            raise AuthenticationError(
                "the broker's answer is not that of Amazon MSK; is IAM on for this cluster?"
            ) from None
        if version != _VERSION:
            raise AuthenticationError(
                f"the broker speaks version {version!r} of AWS_MSK_IAM, kclient {_VERSION!r}"
            )

    def __repr__(self) -> str:
        return f"<{self.name} as {self.identity}>"


def _payload(
    host: str, region: str, credentials: AwsCredentials, moment: str, user_agent: str
) -> bytes:
    scope = sigv4.Scope(moment[:8], region, _SERVICE)
    query = {
        "Action": _ACTION,
        "X-Amz-Algorithm": sigv4.ALGORITHM,
        "X-Amz-Credential": f"{credentials.access_key_id}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": _VALID_SECONDS,
        "X-Amz-SignedHeaders": "host",
    }
    if credentials.session_token:
        query["X-Amz-Security-Token"] = credentials.session_token
    request = sigv4.canonical_request("GET", "/", query, {"host": host})
    text = sigv4.string_to_sign(request, moment, scope)
    payload = {
        "version": _VERSION,
        "host": host,
        "user-agent": user_agent,
        **{key.lower(): value for key, value in query.items()},
        "x-amz-signature": sigv4.sign(credentials.secret_access_key, scope, text),
    }
    return json.dumps(payload, separators=(",", ":")).encode()

"""AWS Signature Version 4: what a request signs, and how."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import NamedTuple
from urllib.parse import quote

ALGORITHM = "AWS4-HMAC-SHA256"
EMPTY_PAYLOAD = hashlib.sha256(b"").hexdigest()


class Scope(NamedTuple):
    """What a signature is good for: a day, a region and a service."""

    day: str
    region: str
    service: str

    def __str__(self) -> str:
        return f"{self.day}/{self.region}/{self.service}/aws4_request"


def timestamp(when: datetime) -> str:
    """A moment as AWS writes it; ``when`` knows its time zone."""
    return when.astimezone(timezone.utc).strftime("%Y%m%dT%H%M%SZ")


def canonical_query(parameters: Mapping[str, str]) -> str:
    """Parameters encoded, then sorted."""
    pairs = sorted(
        (quote(key, safe="-_.~"), quote(parameters[key], safe="-_.~")) for key in parameters
    )
    return "&".join(f"{key}={value}" for key, value in pairs)


def canonical_request(
    method: str,
    path: str,
    parameters: Mapping[str, str],
    headers: Mapping[str, str],
    payload: str = EMPTY_PAYLOAD,
) -> str:
    """The text a signature covers. ``path`` is encoded, header names are lower case."""
    lines = [f"{name}:{' '.join(headers[name].split())}\n" for name in sorted(headers)]
    signed = ";".join(sorted(headers))
    query = canonical_query(parameters)
    return "\n".join((method, path, query, "".join(lines), signed, payload))


def string_to_sign(request: str, moment: str, scope: Scope) -> str:
    """What the key signs: a canonical request, when and for what."""
    digest = hashlib.sha256(request.encode()).hexdigest()
    return "\n".join((ALGORITHM, moment, str(scope), digest))


def signing_key(secret: str, scope: Scope) -> bytes:
    """The secret narrowed to a scope, step by step."""
    key = f"AWS4{secret}".encode()
    for part in (*scope, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def sign(secret: str, scope: Scope, text: str) -> str:
    """The signature of ``text`` in hexadecimal."""
    return hmac.digest(signing_key(secret, scope), text.encode(), "sha256").hex()

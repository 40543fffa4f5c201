"""GSSAPI (RFC 4752): Kerberos, by the system's library through the ``gssapi`` extra.

Only the login is protected by Kerberos, as with Kafka's own client: what keeps the data safe
is TLS.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from importlib import import_module
from types import ModuleType
from typing import Any

from kclient.errors import AuthenticationError, ConfigError

_AUTH_ONLY = 1
_ANSWER = bytes((_AUTH_ONLY, 0, 0, 0))  # no security layer, and so no buffer for one
_LAYER_BYTES = 4


def load_gssapi() -> ModuleType:
    """The ``gssapi`` package. Raises ConfigError, saying how to install it, where it is not."""
    try:
        return import_module("gssapi")
    except (ImportError, OSError) as error:
        raise ConfigError(
            f"sasl_mechanism GSSAPI needs the gssapi package ({error}): "
            "pip install 'kclient[gssapi]', which needs Kerberos' own library "
            "(on Debian: apt-get install libkrb5-dev)"
        ) from error


class Gssapi:
    """Log in to ``service`` on ``host`` with a Kerberos ticket.

    The ticket is that of ``principal``, or the default one of the credential cache; with
    ``keytab`` it is fetched with the key in that file instead.
    """

    name = "GSSAPI"

    def __init__(
        self, host: str, service: str, principal: str | None = None, keytab: str | None = None
    ) -> None:
        """Raises ConfigError if the ``gssapi`` package is missing."""
        self._gssapi = load_gssapi()
        self.identity = f"Kerberos principal {principal!r}" if principal else "our Kerberos ticket"
        self._target = f"{service}@{host}"
        self._principal = principal
        self._keytab = keytab

    def exchange(self) -> Generator[bytes, bytes, None]:
        """Prove who we are and have the broker do so, then decline a security layer.

        Raises AuthenticationError.
        """
        library = self._gssapi
        try:
            context = self._context()
            answer: bytes | None = None
            while not context.complete:
                # When our side is complete, the empty token asks for the broker's layers.
                answer = yield context.step(answer) or b""
            if library.RequirementFlag.mutual_authentication not in context.actual_flags:
                raise AuthenticationError("the broker did not prove who it is to Kerberos")
            offered = context.unwrap(answer).message
            if len(offered) != _LAYER_BYTES or not offered[0] & _AUTH_ONLY:
                raise AuthenticationError(
                    "the broker insists on a security layer of GSSAPI, which Kafka does not have"
                )
            yield context.wrap(_ANSWER, False).message
        except library.exceptions.GSSError as error:
            raise AuthenticationError(f"Kerberos: {_told(error)}") from error

    def _context(self) -> Any:
        library = self._gssapi
        flags = library.RequirementFlag
        return library.SecurityContext(
            name=library.Name(self._target, library.NameType.hostbased_service),
            creds=self._credentials(),
            mech=library.MechType.kerberos,
            flags=flags.mutual_authentication | flags.integrity | flags.out_of_sequence_detection,
            usage="initiate",
        )

    def _credentials(self) -> Any:
        library = self._gssapi
        if self._principal is None and self._keytab is None:
            return None  # the library's default: KRB5CCNAME, KRB5_CLIENT_KTNAME
        name = None
        if self._principal is not None:
            name = library.Name(self._principal, library.NameType.kerberos_principal)
        # A cache of its own, in memory, keeps tickets of this keytab from mixing with others:
        # a cache has one principal.
        owner = hashlib.sha256(f"{self._principal}\n{self._keytab}".encode()).hexdigest()
        store = {"client_keytab": self._keytab, "ccache": f"MEMORY:kclient-{owner}"}
        chosen = {"store": store} if self._keytab is not None else {}
        return library.Credentials(name=name, usage="initiate", **chosen)

    def __repr__(self) -> str:
        return f"<{self.name} as {self.identity} to {self._target}>"


def _told(error: Any) -> str:
    """Both halves of what the library says, on one line."""
    return " ".join(str(error).split())

"""Who we are and how the connection is protected: TLS and SASL from the options."""

from __future__ import annotations

import ssl

from kclient.config import ClientOptions
from kclient.protocol.sasl import Mechanism


class Security:
    """TLS and the login of one client."""

    tls: ssl.SSLContext | None = None
    uses_sasl = False

    @classmethod
    def from_options(cls, options: ClientOptions) -> Security:
        """What the options say."""
        return cls()

    def mechanism(self, host: str) -> Mechanism | None:
        """A login with the broker at ``host``, None if there is none."""
        return None

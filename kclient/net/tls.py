"""TLS contexts from options: what is trusted, and who we are."""

from __future__ import annotations

import ssl
from pathlib import Path

from kclient.config import ClientOptions
from kclient.errors import ConfigError

OWN_OPTIONS = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_ciphers")
"""The options that a context is made of; a user's ``ssl_context`` stands in for all of them."""


def client_context(options: ClientOptions) -> ssl.SSLContext:
    """The context for connections to brokers: TLS 1.2 at least, certificate and name checked.

    Raises ConfigError for files that cannot be used, a wrong password (which it does not
    show), and options that contradict each other.
    """
    given = options["ssl_context"]
    if given is not None:
        _refuse_besides_context(options)
        return given
    context = trusting(options["ssl_cafile"])
    context.check_hostname = options["ssl_check_hostname"]
    _identify(context, options)
    if options["ssl_ciphers"] is not None:
        try:
            context.set_ciphers(options["ssl_ciphers"])
        except ssl.SSLError:
            raise ConfigError(
                f"ssl_ciphers: OpenSSL knows no cipher of {options['ssl_ciphers']!r}; "
                "`openssl ciphers` lists them"
            ) from None
    return context


def trusting(cafile: str | None, *, system: bool = False) -> ssl.SSLContext:
    """A context that trusts the CAs in ``cafile``, or the system's where there is none.

    With ``system`` it trusts both. Raises ConfigError if the file cannot be used.
    """
    if cafile is not None:
        _check_readable("ssl_cafile", cafile)
    try:
        context = ssl.create_default_context(cafile=None if system else cafile)
        if system and cafile is not None:
            context.load_verify_locations(cafile)
    except ssl.SSLError as error:
        raise ConfigError(
            f"ssl_cafile {cafile!r} holds no certificate in PEM form ({error.reason})"
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _identify(context: ssl.SSLContext, options: ClientOptions) -> None:
    """Load the client certificate and its key, for brokers that want one."""
    certfile, keyfile = options["ssl_certfile"], options["ssl_keyfile"]
    password = options["ssl_password"]
    if certfile is None:
        if keyfile is not None or password is not None:
            raise ConfigError("ssl_keyfile and ssl_password go with ssl_certfile, which is missing")
        return
    _check_readable("ssl_certfile", certfile)
    if keyfile is not None:
        _check_readable("ssl_keyfile", keyfile)
    try:
        # A callable, for without one OpenSSL would ask for a password on the terminal.
        context.load_cert_chain(certfile, keyfile, lambda: password or "")
    except (ssl.SSLError, ValueError) as error:
        raise _unusable(certfile, keyfile or certfile, password, error) from None


def _unusable(
    certfile: str, keyfile: str, password: str | None, error: ssl.SSLError | ValueError
) -> ConfigError:
    reason = getattr(error, "reason", None) or "no reason given"
    if reason == "KEY_VALUES_MISMATCH":
        return ConfigError(f"the key in {keyfile!r} is not that of the certificate {certfile!r}")
    if b"ENCRYPTED" in Path(keyfile).read_bytes():
        what = "is encrypted: give ssl_password" if password is None else "needs another password"
        return ConfigError(f"the key in {keyfile!r} {what}", option="ssl_password")
    return ConfigError(
        f"ssl_certfile {certfile!r} with the key in {keyfile!r} cannot be used ({reason}); both "
        "must be in PEM form, the certificate first in its chain"
    )


def _check_readable(name: str, path: str) -> None:
    try:
        Path(path).open("rb").close()
    except OSError as error:
        raise ConfigError(
            f"{name} {path!r} cannot be read: {error.strerror}", option=name
        ) from None


def _refuse_besides_context(options: ClientOptions) -> None:
    values: dict[str, object] = {**options}
    others = [name for name in OWN_OPTIONS if values[name] is not None]
    others += [] if options["ssl_check_hostname"] else ["ssl_check_hostname"]
    if others:
        raise ConfigError(
            f"ssl_context and {', '.join(others)} contradict each other: set it on the context"
        )

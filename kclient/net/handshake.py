"""The TLS handshake, and what its failures mean.

Those about a certificate, ours or the broker's, are AuthenticationErrors: trying again does
not help. With TLS 1.3 a broker that refuses ours says so only when we first wait for an answer.
"""

from __future__ import annotations

import socket
import ssl

from kclient.deadline import Deadline
from kclient.errors import AuthenticationError, KafkaError, KafkaTimeout, TransportError

_NOT_YET_VALID, _EXPIRED, _WRONG_HOST, _WRONG_ADDRESS = 9, 10, 62, 64
_OURS = "the broker refuses our client certificate"
# Alerts as OpenSSL names them; Java's brokers say "unknown" for most of what is wrong with one.
_ABOUT_OUR_CERTIFICATE = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the broker wants a client certificate: give "
    "ssl_certfile and ssl_keyfile",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": f"{_OURS}: is it expired, or its CA not in the broker's "
    "trust store?",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the broker wants a client certificate, or refuses ours: "
    "check ssl_certfile and ssl_keyfile",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": f"{_OURS}: it has expired",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": f"{_OURS}: it is not meant for clients",
    "TLSV1_ALERT_UNKNOWN_CA": f"{_OURS}: its CA is not in the broker's trust store",
    "TLSV1_ALERT_ACCESS_DENIED": _OURS,
}
_NO_TLS_1_2 = "the broker has no TLS 1.2 or later, and kclient speaks nothing older"
_ABOUT_THE_REST = {
    "WRONG_VERSION_NUMBER": "this port does not speak TLS; set security_protocol to PLAINTEXT or "
    "SASL_PLAINTEXT, or use the broker's TLS port",
    "UNSUPPORTED_PROTOCOL": _NO_TLS_1_2,
    "TLSV1_ALERT_PROTOCOL_VERSION": _NO_TLS_1_2,
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the broker accepts none of our ciphers (ssl_ciphers), or "
    "wants a client certificate (ssl_certfile)",
}
_HUNG_UP = (
    "the other side hung up, as a plaintext port does; check security_protocol and the port, and "
    "whether the broker wants a client certificate (ssl_certfile)"
)


def shake_hands(
    sock: socket.socket, host: str, address: str, tls: ssl.SSLContext, deadline: Deadline
) -> ssl.SSLSocket:
    """Wrap a connected socket; the name asked for and checked is ``host``.

    Raises AuthenticationError, TransportError or KafkaTimeout.
    """
    sock.settimeout(deadline.remaining())
    try:
        # A trailing dot makes a name absolute for DNS; certificates and SNI do not have it.
        return tls.wrap_socket(sock, server_hostname=host.rstrip("."))
    except ssl.SSLCertVerificationError as error:
        raise AuthenticationError(
            f"{address}: the broker's certificate is refused: {error.verify_message.rstrip('.')}; "
            f"{_certificate_advice(error.verify_code)}",
            stage="tls",
            address=address,
        ) from error
    except TimeoutError as error:
        text = f"{address}: no answer to the TLS handshake; is it a plaintext port?"
        raise KafkaTimeout(text, cause=error, stage="tls", address=address) from error
    except ssl.SSLError as error:
        raise tls_failure(error, address) from error
    except OSError as error:
        text = f"{address}: the TLS handshake failed ({error}); {_HUNG_UP}"
        raise TransportError(text, stage="tls", address=address) from error


def tls_failure(error: ssl.SSLError, address: str) -> KafkaError:
    """What to raise for an error of OpenSSL's, in the handshake or after it."""
    reason = error.reason or ""
    kind: type[KafkaError] = TransportError
    if reason in _ABOUT_OUR_CERTIFICATE:
        kind, advice = AuthenticationError, _ABOUT_OUR_CERTIFICATE[reason]
    else:
        advice = _ABOUT_THE_REST.get(reason, _HUNG_UP)
    return kind(
        f"{address}: TLS failed ({reason or error}); {advice}", stage="tls", address=address
    )


def _certificate_advice(code: int) -> str:
    if code == _EXPIRED:
        return "renew it, or set this machine's clock"
    if code == _NOT_YET_VALID:
        return "set this machine's clock, or that of whoever made it"
    if code in (_WRONG_HOST, _WRONG_ADDRESS):
        return "connect by a name that it holds, or give it this one"
    return "give the CA that signed it as ssl_cafile"

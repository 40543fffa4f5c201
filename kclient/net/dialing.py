"""From a name to a connected socket: DNS, then TCP, each told apart when it fails."""

from __future__ import annotations

import re
import socket
import threading

from kclient.deadline import Deadline
from kclient.errors import KafkaTimeout, TransportError
from kclient.net.endpoint import Endpoint

Address = tuple[socket.AddressFamily, tuple[object, ...]]
"""A family and a socket address of it; the first item of that is the IP address."""

_NUMERIC = re.compile(r"[0-9.]+|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*")


def resolve(host: str, port: int, deadline: Deadline) -> list[Address]:
    """Every address of a name. The system's resolver knows no deadline, so a thread asks it.

    Raises TransportError, or KafkaTimeout if the resolver is silent; their stage is "dns".
    """
    found: list[Address] = []
    failure: list[Exception] = []

    def ask() -> None:
        try:
            for family, _, _, _, where in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                found.append((family, where))
        except (OSError, UnicodeError) as error:
            failure.append(error)

    if _NUMERIC.fullmatch(host):
        ask()
    else:
        thread = threading.Thread(target=ask, name=f"kclient-resolve-{host}", daemon=True)
        thread.start()
        thread.join(deadline.remaining())
    address = Endpoint(-1, host, port).address
    if failure:
        raise TransportError(
            f"{address}: the name {host!r} cannot be resolved here ({failure[0]}); "
            "check its spelling, DNS, and what the brokers advertise",
            stage="dns",
            address=address,
        ) from failure[0]
    if not found:
        raise KafkaTimeout(
            f"{address}: DNS did not answer in time about {host!r}; check this machine's resolver",
            stage="dns",
            address=address,
        )
    return found


def dial(targets: list[Address], address: str, deadline: Deadline) -> socket.socket:
    """Connect to the first of ``targets`` that answers; ``address`` is how to call them.

    Raises TransportError, or KafkaTimeout if the last one is silent; their stage is "tcp".
    """
    failures: list[str] = []
    last: OSError | None = None
    for count, (family, where) in enumerate(targets):
        # The time left is shared among the addresses left, so that none can use it all.
        share = deadline.left() / (len(targets) - count)
        try:
            return _connect(family, where, share)
        except OSError as error:
            failures.append(f"{where[0]}: {error.strerror or error}")
            last = error
    text = f"{address}: no TCP connection ({'; '.join(failures)}); "
    if isinstance(last, TimeoutError):
        text += "is a firewall in between, or the host down?"
        raise KafkaTimeout(text, cause=last, stage="tcp", address=address) from last
    text += "is the broker up, and is this its port?"
    raise TransportError(text, stage="tcp", address=address) from last


def _connect(
    family: socket.AddressFamily, where: tuple[object, ...], seconds: float
) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.settimeout(seconds or 0.001)  # 0 would mean not to wait at all
        sock.connect(where)
    except BaseException:
        sock.close()
        raise
    return sock

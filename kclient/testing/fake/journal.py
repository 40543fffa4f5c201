"""Every request that reached the fake cluster, in order of arrival."""

from __future__ import annotations

from threading import Condition
from typing import NamedTuple

from kclient.errors import KafkaTimeout
from kclient.protocol import Message


class SeenRequest(NamedTuple):
    """A request as it arrived. ``connection`` numbers the cluster's connections from 1."""

    node: int
    api: str
    version: int
    client_id: str | None
    correlation_id: int
    message: Message
    connection: int = 0

    def __repr__(self) -> str:
        # A token may hold a password.
        message = "(hidden)" if self.api == "SaslAuthenticate" else repr(self.message)
        return (
            f"<{self.api} v{self.version} #{self.correlation_id} from {self.client_id!r} "
            f"to broker {self.node}: {message}>"
        )


class Journal:
    """The requests so far; ``changed`` guards them and tells of new ones."""

    def __init__(self, changed: Condition) -> None:
        self._changed = changed
        self._seen: list[SeenRequest] = []

    def add(self, request: SeenRequest) -> None:
        """Note a request that has just arrived."""
        with self._changed:
            self._seen.append(request)
            self._changed.notify_all()

    def clear(self) -> None:
        """Forget all."""
        with self._changed:
            self._seen.clear()

    def requests(self, api: str | None = None, node: int | None = None) -> list[SeenRequest]:
        """Those of one API, of one broker, or all."""
        with self._changed:
            return [
                seen for seen in self._seen if api in (None, seen.api) and node in (None, seen.node)
            ]

    def await_nth(self, api: str, nth: int, node: int | None, timeout: float) -> SeenRequest:
        """The nth request to ``api``, waiting up to ``timeout`` seconds; or KafkaTimeout."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.requests(api, node)) >= nth, timeout):
                arrived = ", ".join(seen.api for seen in self._seen[-10:]) or "nothing"
                where = "the fake cluster" if node is None else f"the fake broker {node}"
                raise KafkaTimeout(
                    f"{where} saw {len(self.requests(api, node))} of {nth} {api} requests "
                    f"within {timeout} s; what arrived last: {arrived}"
                )
            return self.requests(api, node)[nth - 1]

"""The way to a group's coordinator: found by asking, forgotten when it is not the one."""

from __future__ import annotations

from typing import TypeVar, cast

from kclient.cluster import Coordinator, Router
from kclient.cluster.target import CoordinatorKind
from kclient.config import ConsumerOptions
from kclient.deadline import Deadline
from kclient.errors import KafkaError
from kclient.group.actions import Leave
from kclient.net.endpoint import Endpoint
from kclient.net.pool import Pool
from kclient.protocol.messages.leave_group import LeaveGroupRequest
from kclient.protocol.wire import Message

HEARTBEAT_LANE = "heartbeat"
M = TypeVar("M", bound=Message)


class CoordinatorLink:
    """Asks the coordinator of one group. Safe for many threads."""

    def __init__(self, group_id: str, options: ConsumerOptions, pool: Pool, router: Router) -> None:
        self.endpoint: Endpoint | None = None
        """The coordinator as it was found last."""
        self.seconds = options["request_timeout_ms"] / 1000
        """How long a request may take that does not wait for other members."""
        self._pool = pool
        self._router = router
        self._target = Coordinator(CoordinatorKind.GROUP, group_id)

    def find(self, deadline: Deadline) -> int:
        """Ask who coordinates; its node. Raises a retriable error if there is none yet."""
        self._router.forget(self._target, None)
        self.endpoint = self._router.locate(self._target, deadline)
        return self.endpoint.node

    def ask(self, request: Message, answer: type[M], lane: str, deadline: Deadline) -> M:
        """One round trip. Raises TransportError, KafkaTimeout, UnsupportedVersion."""
        assert self.endpoint is not None
        with self._pool.lease(self.endpoint, lane, deadline) as connection:
            version = connection.version_of(type(request))
            return cast(M, connection.ask(request, version, deadline))

    def leave(self, leave: Leave, deadline: Deadline) -> None:
        """Say that a member leaves; what is answered does not matter."""
        if self.endpoint is not None:
            with self._pool.lease(self.endpoint, HEARTBEAT_LANE, deadline) as connection:
                version = connection.version_of(LeaveGroupRequest)
                connection.ask(leave.request(version), version, deadline)

    def forget(self, error: KafkaError) -> None:
        """Drop what the error says is no longer true."""
        self._router.forget(self._target, error)

"""The states of a member by the consumer protocol (KIP-848), and every step between them.

Theory. The coordinator spreads the partitions, and all is said in heartbeats. A member joins
with epoch 0 and is a member while its epoch is above. A heartbeat may bring a new target; the
member gives up what is not in it, takes what is new, and says so in the next heartbeat, which
lets the coordinator hand on what was given up. Expelled, it has lost all and joins with
epoch 0 again. It leaves with epoch -1, or -2 if it is static and will be back.
"""

from __future__ import annotations

from enum import Enum, auto


class ConsumerState(Enum):
    """Where a member stands."""

    LEFT = auto()
    JOINING = auto()
    MEMBER = auto()
    LEAVING = auto()
    FENCED = auto()
    """For good: another took this static member's place."""


class ConsumerEvent(Enum):
    """What moves a member."""

    SUBSCRIBED = auto()
    ADMITTED = auto()
    EXPELLED = auto()
    REPLACED = auto()
    UNSUBSCRIBED = auto()
    TOLD = auto()


_LIVE = (ConsumerState.JOINING, ConsumerState.MEMBER)

CONSUMER_TABLE: dict[tuple[ConsumerState, ConsumerEvent], ConsumerState] = {
    (ConsumerState.LEFT, ConsumerEvent.SUBSCRIBED): ConsumerState.JOINING,
    (ConsumerState.LEAVING, ConsumerEvent.SUBSCRIBED): ConsumerState.JOINING,
    (ConsumerState.JOINING, ConsumerEvent.ADMITTED): ConsumerState.MEMBER,
    **{(state, ConsumerEvent.EXPELLED): ConsumerState.JOINING for state in _LIVE},
    **{(state, ConsumerEvent.REPLACED): ConsumerState.FENCED for state in _LIVE},
    **{(state, ConsumerEvent.UNSUBSCRIBED): ConsumerState.LEAVING for state in _LIVE},
    (ConsumerState.FENCED, ConsumerEvent.UNSUBSCRIBED): ConsumerState.LEFT,
    (ConsumerState.LEAVING, ConsumerEvent.TOLD): ConsumerState.LEFT,
}
"""Every step there is. What is not here does not happen: such events are ignored."""

"""The states of a member by the classic protocol, and every step between them.

Theory. A member is `OUTSIDE` until the coordinator admits it to a generation. Joining ends in
`JOINED`, or in `LEADING` for the one that has to spread the partitions first; sync hands out
the shares and makes it `STABLE`. From inside, two things can happen: a rebalance is announced
and the member, still a member, `MUST_JOIN` again; or it is expelled, and is `OUTSIDE` with all
it owned lost. An error that only the user can mend waits in `FAILED` until it was raised; a
static member that another replaced is `FENCED`, which only leaving ends.

Whether the coordinator is known is no matter of state: it can be lost and found in any.
"""

from __future__ import annotations

from enum import Enum, auto


class State(Enum):
    """Where a member stands."""

    LEFT = auto()
    """Not subscribed."""
    OUTSIDE = auto()
    MUST_JOIN = auto()
    LEADING = auto()
    JOINED = auto()
    STABLE = auto()
    LEAVING = auto()
    FAILED = auto()
    """The user has to see an error before it goes on."""
    FENCED = auto()
    """For good: another took this static member's place."""


class Event(Enum):
    """What moves a member."""

    SUBSCRIBED = auto()
    NAMED = auto()
    ADMITTED = auto()
    ELECTED = auto()
    SPREAD = auto()
    SYNCED = auto()
    REBALANCE = auto()
    EXPELLED = auto()
    REFUSED = auto()
    RETRIED = auto()
    REPLACED = auto()
    UNSUBSCRIBED = auto()
    TOLD = auto()


_INSIDE = (State.MUST_JOIN, State.LEADING, State.JOINED, State.STABLE)
_LIVE = (State.OUTSIDE, *_INSIDE)

TABLE: dict[tuple[State, Event], State] = {
    (State.LEFT, Event.SUBSCRIBED): State.OUTSIDE,
    (State.LEAVING, Event.SUBSCRIBED): State.MUST_JOIN,
    (State.FAILED, Event.SUBSCRIBED): State.MUST_JOIN,
    (State.OUTSIDE, Event.NAMED): State.OUTSIDE,
    (State.MUST_JOIN, Event.NAMED): State.MUST_JOIN,
    (State.OUTSIDE, Event.ADMITTED): State.JOINED,
    (State.MUST_JOIN, Event.ADMITTED): State.JOINED,
    (State.OUTSIDE, Event.ELECTED): State.LEADING,
    (State.MUST_JOIN, Event.ELECTED): State.LEADING,
    (State.LEADING, Event.SPREAD): State.JOINED,
    (State.JOINED, Event.SYNCED): State.STABLE,
    (State.OUTSIDE, Event.REBALANCE): State.OUTSIDE,
    **{(state, Event.REBALANCE): State.MUST_JOIN for state in _INSIDE},
    **{(state, Event.EXPELLED): State.OUTSIDE for state in (*_LIVE, State.FAILED)},
    (State.LEAVING, Event.EXPELLED): State.LEAVING,
    **{(state, Event.REFUSED): State.FAILED for state in _LIVE},
    (State.FAILED, Event.RETRIED): State.MUST_JOIN,
    **{(state, Event.REPLACED): State.FENCED for state in (*_LIVE, State.FAILED)},
    **{
        (state, Event.UNSUBSCRIBED): State.LEAVING for state in (*_LIVE, State.FAILED, State.FENCED)
    },
    (State.LEAVING, Event.TOLD): State.LEFT,
}
"""Every step there is. What is not here does not happen: such events are ignored."""

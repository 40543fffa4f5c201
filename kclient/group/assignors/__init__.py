"""Who reads which partition: the assignors of Java's client, with the same answers.

The member that leads a group runs one of them over what all members said of themselves.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from kclient.errors import ConfigError
from kclient.group.assignors.interface import (
    Assignment,
    Assignor,
    MemberSubscription,
    PartitionInfo,
    RebalanceProtocol,
)
from kclient.group.assignors.ranges import RangeAssignor
from kclient.group.assignors.round_robin import RoundRobinAssignor
from kclient.group.assignors.sticky import CooperativeStickyAssignor, StickyAssignor

__all__ = [
    "Assignment",
    "Assignor",
    "CooperativeStickyAssignor",
    "MemberSubscription",
    "PartitionInfo",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
    "choose_assignors",
    "common_protocol",
]

_BY_NAME: dict[str, Assignor] = {
    one.name: one
    for one in (
        RangeAssignor(),
        RoundRobinAssignor(),
        StickyAssignor(),
        CooperativeStickyAssignor(),
    )
}


def choose_assignors(choices: Sequence[str | Assignor]) -> tuple[Assignor, ...]:
    """The assignors a member offers, best first, by name or as objects of the user.

    Raises ConfigError when there are none, one is unknown, or two have the same name.
    """
    chosen = tuple(_by_name(one) if isinstance(one, str) else one for one in choices)
    names = [one.name for one in chosen]
    if not names:
        raise ConfigError("partition_assignment_strategy is empty; name at least one assignor")
    if len(set(names)) != len(names):
        raise ConfigError(f"partition_assignment_strategy names one twice: {', '.join(names)}")
    common_protocol(chosen)
    return chosen


def common_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """The best protocol that all of them support, for the group may settle on any of them.

    Raises ConfigError when there is none.
    """
    common = set.intersection(*(set(one.protocols) for one in assignors))
    if not common:
        names = ", ".join(one.name for one in assignors)
        raise ConfigError(f"assignors {names} have no rebalance protocol in common")
    return max(common)


def _by_name(name: str) -> Assignor:
    found = _BY_NAME.get(name)
    if found is None:
        close = difflib.get_close_matches(name, _BY_NAME, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ConfigError(f"assignor {name!r} is unknown; {hint}there are {', '.join(_BY_NAME)}")
    return found

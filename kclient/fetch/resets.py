"""``auto_offset_reset``: what it says, as a time to look an offset up by."""

from __future__ import annotations

import re
import time

from kclient.errors import ConfigError
from kclient.fetch.positions import EARLIEST, LATEST

_BY_DURATION = "by_duration:"
_ISO = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


def check_reset(policy: str) -> None:
    """Raise ConfigError unless it is latest, earliest, none or ``by_duration:PT1H``."""
    if policy not in ("latest", "earliest", "none"):
        duration_ms(policy)


def reset_time(policy: str) -> int:
    """The time (ms) to look an offset up by, or LATEST or EARLIEST."""
    if policy == "earliest":
        return EARLIEST
    if policy == "latest":
        return LATEST
    return int(time.time() * 1000) - duration_ms(policy)


def duration_ms(policy: str) -> int:
    """Read ``by_duration:PT1H30M`` (ISO 8601, KIP-1106), in ms. Raises ConfigError."""
    match = _ISO.fullmatch(policy.removeprefix(_BY_DURATION))
    if not policy.startswith(_BY_DURATION) or match is None or not any(match.groups()):
        raise ConfigError(
            f"auto_offset_reset={policy!r}: it must be 'latest', 'earliest', 'none' or a "
            "duration like 'by_duration:PT1H30M'"
        )
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)

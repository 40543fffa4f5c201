"""Which APIs a fake broker speaks, and how an older one is emulated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kclient.errors import ConfigError
from kclient.protocol import APIS
from kclient.protocol.negotiate import Versions

Speaks = Mapping[str, "int | tuple[int, int] | None"] | Versions
"""By API name the highest version, or the lowest and highest, or None if it is not there;
other APIs are spoken in full. A ``Versions``, as ``KAFKA_0_9``, means just what is in it."""

_KEYS = {api.name: api.key for api in APIS.values()}


def api_key(name: str) -> int:
    """The number of an API. Raises ConfigError if Kafka has none of that name."""
    try:
        return _KEYS[name]
    except KeyError:
        raise ConfigError(f"there is no API {name!r}; names are as in 'ListOffsets'") from None


def spoken(handled: Iterable[int], speaks: Speaks) -> dict[int, tuple[int, int]]:
    """The (lowest, highest) version by API key, of those that the fake can handle.

    Raises ConfigError for a name that does not exist or a range that Kafka never had.
    """
    full = {key: (APIS[key].versions[0], APIS[key].stable) for key in sorted(handled)}
    if isinstance(speaks, Versions):
        return {key: limits for key, limits in speaks.ranges.items() if key in full}
    for name, limits in speaks.items():
        key = api_key(name)
        if limits is None:
            full.pop(key, None)
            continue
        low, high = limits if isinstance(limits, tuple) else (APIS[key].versions[0], limits)
        if not APIS[key].versions[0] <= low <= high <= APIS[key].versions[1]:
            raise ConfigError(f"speaks={{{name!r}: {limits!r}}}: Kafka has {APIS[key].versions}")
        if key in full:
            full[key] = low, high
    return full

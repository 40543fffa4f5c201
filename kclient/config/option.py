"""What an option is, and how values given by a user are checked against it."""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar, Union, cast, get_args, get_origin
from typing import get_type_hints as _type_hints

from kclient.errors import ConfigError

T = TypeVar("T")
REQUIRED: Any = object()
"""The default of an option that has none."""

_HIDDEN = "[hidden]"


class Option(NamedTuple):
    """What the declaration of an option says besides its name and type.

    ``kafka`` are dotted names of Java's client or librdkafka that are not simply ours with
    dots. Numbers lie between ``at_least`` and ``at_most``. A ``secret`` is never shown.
    """

    default: Any
    at_least: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()
    secret: bool = False
    kafka: tuple[str, ...] = ()
    read: Callable[[str], Any] | None = None
    """Turns the text of a properties file into a value, where the type alone does not say."""


class Declared(NamedTuple):
    """An option with its name and type."""

    name: str
    hint: Any
    option: Option

    @property
    def dotted(self) -> tuple[str, ...]:
        """Every name it has in a properties file."""
        return (self.name.replace("_", "."), *self.option.kafka)


class Resolved(dict[str, Any]):
    """Every option of a client with its value. Its repr hides secrets; it pickles."""

    secrets: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        shown = (
            f"{name}={_HIDDEN if name in self.secrets and value is not None else repr(value)}"
            for name, value in self.items()
        )
        return f"{type(self).__name__}({', '.join(shown)})"


_seen: dict[type, dict[str, Declared]] = {}


def declared(options: type) -> Mapping[str, Declared]:
    """The options that a TypedDict declares, by name."""
    if options in _seen:
        return _seen[options]
    found = _seen[options] = {}
    for name, hint in _type_hints(options, include_extras=True).items():
        kind, option = get_args(hint) if get_origin(hint) is Annotated else (hint, None)
        if isinstance(option, Option):
            found[name] = Declared(name, kind, option)
    return found


def resolve(options: type[T], given: Mapping[str, Any]) -> T:
    """Every option of ``options``, as given or by default, checked one by one.

    Raises ConfigError for an unknown name, a missing one, a wrong type or value.
    """
    known = declared(options)
    for name in given:
        if name not in known:
            raise unknown(name, known, "option")
    values = Resolved()
    values.secrets = frozenset(name for name, entry in known.items() if entry.option.secret)
    for name, entry in known.items():
        value = given.get(name, entry.option.default)
        if value is REQUIRED:
            raise ConfigError(f"{name} is required")
        if value is not entry.option.default:
            _check(entry, value)
        values[name] = value
    return cast(T, values)


def unknown(name: str, known: Mapping[str, Any], what: str) -> ConfigError:
    """The error for a name that does not exist, with the nearest one that does."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]!r}?" if close else "see the client's documentation"
    return ConfigError(f"unknown {what} {name!r}; {hint}", option=name)


def _check(entry: Declared, value: Any) -> None:
    name, hint, option = entry
    shown = _HIDDEN if option.secret else repr(value)
    if not _fits(value, hint):
        raise ConfigError(f"{name} must be {_spelled(hint)}, not {shown}", option=name)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        low, high = option.at_least, option.at_most
        # Written so that a NaN is refused, too.
        if not ((low is None or value >= low) and (high is None or value <= high)):
            bounds = f"at least {low:g}" if high is None else f"from {low or 0:g} to {high:g}"
            raise ConfigError(f"{name} must be {bounds}, not {shown}", option=name)
    if option.choices and isinstance(value, str) and value not in option.choices:
        listed = ", ".join(repr(choice) for choice in option.choices)
        raise ConfigError(f"{name} must be one of {listed}, not {shown}", option=name)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, as deep as an isinstance can tell."""
    origin = get_origin(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    if hint is None or hint is type(None):
        return value is None
    if isinstance(value, bool):
        return hint is bool
    if hint is float:
        return isinstance(value, (int, float))
    if origin is Callable:
        return callable(value)
    if origin is Sequence:
        (item,) = get_args(hint)
        return isinstance(value, (list, tuple)) and all(_fits(each, item) for each in value)
    if origin is Mapping:
        of_key, of_value = get_args(hint)
        return isinstance(value, Mapping) and all(
            _fits(key, of_key) and _fits(each, of_value) for key, each in value.items()
        )
    return isinstance(value, origin or hint)


def _spelled(hint: Any) -> str:
    names = {int: "a whole number", float: "a number", str: "a string", bool: "True or False"}
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_spelled(each) for each in get_args(hint))
    if hint is type(None):
        return "None"
    if get_origin(hint) is Callable:
        return "a callable"
    if get_origin(hint) is Sequence:
        return "a list"
    if get_origin(hint) is Mapping:
        key, value = map(_spelled, get_args(hint))
        return f"a mapping from {key} to {value}"
    return names.get(hint) or str(getattr(hint, "__name__", hint))

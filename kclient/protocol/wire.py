"""How Kafka's messages are declared: typed field specifiers on plain classes.

A declaration says what a field is called, its type, the versions it exists in, its tag,
default and nullability. It does no work itself: `compiler.py` turns a class and a version
into straight-line encode and decode functions at first use.

    class FetchTopic(Struct):
        topic: str = string(since=0, until=12)
        partitions: list[FetchPartition] = array(FetchPartition, since=0)

Specifiers return what mypy should believe (``i32`` an ``int``), so that a wrong type in a
declaration or in a call of the class is an error before anything runs.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, cast
from uuid import UUID

from kclient.protocol import compiler

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_options: object) -> Callable[[type], type]:
        """Only type checkers need the real one (Python 3.11)."""
        return lambda cls: cls


T = TypeVar("T")
S = TypeVar("S", bound="Struct")
M = TypeVar("M", bound="Message")
Buffer = bytes | bytearray | memoryview
NEWEST = 32767
ZERO_UUID = UUID(int=0)
_SECRETS = frozenset({"auth_bytes", "hmac", "salted_password"})
"""Fields that no repr shows: login tokens, delegation tokens, what SCRAM keeps of a password."""


class Field(NamedTuple):
    """One declared field; versions are inclusive ranges."""

    kind: str
    since: int
    until: int
    default: Any
    nullable: tuple[int, int] | None
    tag: int | None
    ignorable: bool
    compact: bool
    element: Field | None
    struct: type[Struct] | None

    def exists_in(self, version: int) -> bool:
        """Whether the field is on the wire in ``version``."""
        return self.since <= version <= self.until

    def nullable_in(self, version: int) -> bool:
        """Whether null is allowed on the wire in ``version``."""
        return self.nullable is not None and self.nullable[0] <= version <= self.nullable[1]

    @property
    def mutable(self) -> bool:
        """Whether each instance needs a default value of its own."""
        return self.default is not None and self.kind in ("array", "struct")

    def fresh_default(self) -> Any:
        """The default value, new for each call where it is mutable."""
        if not self.mutable:
            return self.default
        return [] if self.struct is None or self.kind == "array" else self.struct()


def _field(kind: str, zero: Any) -> Callable[..., Any]:
    def specify(
        *,
        since: int = 0,
        until: int = NEWEST,
        default: Any = zero,
        nullable: int | tuple[int, int] | None = None,
        tag: int | None = None,
        ignorable: bool = False,
        compact: bool = True,
        element: Field | None = None,
        struct: type[Struct] | None = None,
    ) -> Field:
        nulls = (nullable, NEWEST) if isinstance(nullable, int) else nullable
        return Field(kind, since, until, default, nulls, tag, ignorable, compact, element, struct)

    specify.__name__ = kind
    return specify


i8 = cast(Callable[..., int], _field("i8", 0))
i16 = cast(Callable[..., int], _field("i16", 0))
u16 = cast(Callable[..., int], _field("u16", 0))
i32 = cast(Callable[..., int], _field("i32", 0))
i64 = cast(Callable[..., int], _field("i64", 0))
f64 = cast(Callable[..., float], _field("f64", 0.0))
boolean = cast(Callable[..., bool], _field("bool", False))
string = cast(Callable[..., str], _field("string", ""))
binary = cast(Callable[..., bytes], _field("bytes", b""))
uuid = cast(Callable[..., UUID], _field("uuid", ZERO_UUID))
records = cast("Callable[..., Buffer | None]", _field("records", None))
_struct = _field("struct", ())
_array = _field("array", ())


def struct(of: type[S], **options: Any) -> S:
    """A nested structure; nullable ones default to ``None`` where Kafka says so."""
    return cast(S, _struct(struct=of, **options))


def array(of: Callable[..., T], **options: Any) -> list[T]:
    """A list of structures or of primitives: ``array(FetchTopic)``, ``array(i32)``."""
    if isinstance(of, type):
        return cast("list[T]", _array(struct=of, **options))
    return cast("list[T]", _array(element=of(), **options))


@dataclass_transform(kw_only_default=True)
class Struct:
    """A group of fields. Keyword arguments set them; the rest takes its default."""

    FIELDS: ClassVar[dict[str, Field]] = {}
    _fresh: ClassVar[tuple[tuple[str, Field], ...]] = ()

    def __init_subclass__(cls) -> None:
        fields = {name: spec for name, spec in vars(cls).items() if isinstance(spec, Field)}
        cls.FIELDS = fields
        cls._fresh = tuple((name, spec) for name, spec in fields.items() if spec.mutable)
        # An immutable default lives on the class, so that decoders need not store fields
        # which their version does not have.
        for name, spec in fields.items():
            if spec.mutable:
                delattr(cls, name)
            else:
                setattr(cls, name, spec.default)

    if not TYPE_CHECKING:  # the signature mypy sees comes from the declarations

        def __init__(self, **values: Any) -> None:
            for name, spec in self._fresh:
                if name not in values:
                    setattr(self, name, spec.fresh_default())
            for name, value in values.items():
                if name not in self.FIELDS:
                    raise TypeError(_unknown_field(type(self), name))
                setattr(self, name, value)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.FIELDS)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={'[hidden]' if name in _SECRETS else repr(value)}"
            for name, spec in self.FIELDS.items()
            if (value := getattr(self, name)) != spec.fresh_default()
        )
        return f"{type(self).__name__}({shown})"


class Message(Struct):
    """A request, response, header or embedded message: a structure with versions.

    ``VERSIONS`` is the (lowest, highest) it speaks, ``FLEXIBLE`` the first version with
    compact lengths and tagged fields, ``API_KEY`` Kafka's number for requests and responses.
    """

    API_KEY: ClassVar[int | None] = None
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE: ClassVar[int] = NEWEST

    def __init_subclass__(
        cls,
        *,
        versions: tuple[int, int],
        key: int | None = None,
        flexible: int = NEWEST,
    ) -> None:
        super().__init_subclass__()
        cls.API_KEY = key
        cls.VERSIONS = versions
        cls.FLEXIBLE = flexible

    def encode(self, version: int) -> bytes:
        """The body (no header) in ``version``.

        Raises `UnsupportedVersion` if the version is not spoken or lacks a field that is
        set, `ProtocolError` if a value does not fit its field.
        """
        return b"".join(compiler.encode_parts(self, version))

    def encode_parts(self, version: int) -> list[Buffer]:
        """As `encode`, in pieces: record batches stay the buffers they were given as."""
        return compiler.encode_parts(self, version)

    @classmethod
    def decode(cls: type[M], data: Buffer, version: int) -> M:
        """The message in ``data``, which holds nothing else.

        Record batches come out as `memoryview` slices of ``data``. Raises `ProtocolError`
        on anything that is not exactly one such message.
        """
        message, pos = compiler.decode_at(cls, data, 0, version)
        if pos != len(data):
            raise compiler.trailing_bytes(cls, version, len(data) - pos)
        return message

    @classmethod
    def decode_at(cls: type[M], data: Buffer, pos: int, version: int) -> tuple[M, int]:
        """The message that starts at byte ``pos``, and the position behind it."""
        return compiler.decode_at(cls, data, pos, version)


def _unknown_field(cls: type[Struct], name: str) -> str:
    close = difflib.get_close_matches(name, cls.FIELDS, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{cls.__name__} has no field {name!r}{hint}"

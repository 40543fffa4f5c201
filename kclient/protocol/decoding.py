"""Generates the decode function of a message in one version.

Every length is checked against the bytes left before anything is allocated for it: slices
never fail on short input, so the generated code compares first, and an array may not
promise more elements than the rest of the input could hold.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kclient.protocol.source import FORMATS, Source
from kclient.protocol.varint import long_uvarint

if TYPE_CHECKING:
    from kclient.protocol.wire import Field, Message, Struct


def source(cls: type[Message], version: int) -> tuple[str, dict[str, Any]]:
    """The text of ``decode(data, pos, end) -> (message, pos)`` and its namespace."""
    generator = _Decoder(cls, version)
    generator.structure(cls, "m")
    generator.flush()
    generator.out.line("return m, pos")
    return generator.out.text("def decode(data, pos, end):"), generator.out.names


def wants_view(cls: type[Struct], version: int) -> bool:
    """Whether the message carries record batches, which are handed out without a copy."""
    return any(
        field.kind == "records" or (field.struct is not None and wants_view(field.struct, version))
        for field in cls.FIELDS.values()
        if field.exists_in(version)
    )


@lru_cache(maxsize=4096)
def _uuid(raw: bytes) -> UUID:
    """Topic ids come again and again; `UUID` costs a microsecond to make."""
    return UUID(bytes=raw)


# Generated code raises ValueError; `compiler.py` adds the message and the byte position.
def _short(count: int, left: int) -> ValueError:
    return ValueError(f"a length of {count} with {left} bytes left")


def _null(name: str) -> ValueError:
    return ValueError(f"{name} may not be null")


def _skip_tags(data: bytes | memoryview, pos: int, end: int, count: int) -> int:
    """The position behind ``count`` tagged fields nobody here knows."""
    for _ in range(count):
        _, pos = _read_uvarint(data, pos)
        size, pos = _read_uvarint(data, pos)
        pos += size
        if pos > end:
            raise _short(size, end - pos + size)
    return pos


def _read_uvarint(data: bytes | memoryview, pos: int) -> tuple[int, int]:
    first = data[pos]
    return (first, pos + 1) if first < 128 else long_uvarint(data, pos + 1, first)


_NUMBERS = {
    kind: [struct.Struct(f">{count}{FORMATS[kind]}").unpack_from for count in range(17)]
    for kind in ("i8", "i16", "u16", "i32", "i64", "f64", "bool")
}
"""Readers for short arrays of numbers, by element kind and count."""


def _many(kind: str, count: int, data: bytes | memoryview, pos: int) -> tuple[Any, ...]:
    return struct.unpack_from(f">{count}{FORMATS[kind]}", data, pos)


class _Decoder:
    """Writes the statements for one message; ``pending`` are reads not yet written.

    A pending read is a `struct` format and the target it is unpacked to. What depends on
    the value (a length, a conversion) calls `flush` first.
    """

    def __init__(self, cls: type[Message], version: int) -> None:
        self.version = version
        self.flexible = version >= cls.FLEXIBLE
        self.view = wants_view(cls, version)
        self.pending: list[tuple[str, str]] = []
        self.out = Source(
            {
                "new": object.__new__,
                "long_uvarint": long_uvarint,
                "read_uvarint": _read_uvarint,
                "skip_tags": _skip_tags,
                "short": _short,
                "null": _null,
                "to_uuid": _uuid,
                "many": _many,
            }
        )

    def flush(self) -> None:
        """Write the pending reads as one statement."""
        if not self.pending:
            return
        formats = "".join(fmt for fmt, _ in self.pending)
        targets = [target for _, target in self.pending]
        self.pending = []
        if formats == "B":
            self.out.line(f"{targets[0]} = data[pos]")
            self.out.line("pos += 1")
            return
        stem, packing = self.out.packing(formats)
        reader = self.out.constant(f"read_{stem}", packing.unpack_from)
        self.out.line(f"{', '.join(targets)}{',' * (len(targets) == 1)} = {reader}(data, pos)")
        self.out.line(f"pos += {packing.size}")

    def structure(self, cls: type[Struct], var: str) -> None:
        """Statements that fill the new object ``var``."""
        self.flush()
        self.out.line(f"{var} = new({self.out.constant(cls.__name__, cls)})")
        present = {n: f for n, f in cls.FIELDS.items() if f.exists_in(self.version)}
        for name, field in cls.FIELDS.items():
            if field.mutable and (name not in present or field.tag is not None):
                self.default(field, f"{var}.{name}")
        for name, field in present.items():
            if field.tag is None:
                self.value(field, f"{var}.{name}")
        if self.flexible:
            tagged = {f.tag: (n, f) for n, f in present.items() if f.tag is not None}
            self.tags(var, tagged)

    def default(self, field: Field, target: str) -> None:
        """A new empty list, or a new structure of defaults."""
        if field.kind == "array":
            self.out.line(f"{target} = []")
        else:
            assert field.struct is not None
            self.out.line(f"{target} = {self.out.constant(field.struct.__name__, field.struct)}()")

    def value(self, field: Field, target: str) -> None:
        """Statements that read one field into ``target``."""
        if field.kind == "uuid":
            raw = self.out.variable("raw")
            self.pending.append(("16s", raw))
            self.flush()
            self.out.line(f"{target} = to_uuid({raw})")
        elif field.kind in FORMATS:
            self.pending.append((FORMATS[field.kind], target))
        elif field.kind == "struct":
            self.nested(field, target)
        else:
            self.sized(field, target)

    def nested(self, field: Field, target: str) -> None:
        """A structure; nullable ones have a marker byte, negative for null."""
        assert field.struct is not None
        var = self.out.variable("m")
        if not field.nullable_in(self.version):
            self.structure(field.struct, var)
            self.flush()
            self.out.line(f"{target} = {var}")
            return
        marker = self.out.variable("marker")
        self.pending.append(("b", marker))
        self.flush()
        self.out.line(f"if {marker} < 0:")
        self.out.line(f"    {target} = None")
        self.out.line("else:")
        self.out.depth += 1
        self.structure(field.struct, var)
        self.flush()
        self.out.line(f"{target} = {var}")
        self.out.depth -= 1

    def sized(self, field: Field, target: str) -> None:
        """A length, then that many bytes or elements; null where the version allows it."""
        count = self.length(field)
        self.out.line(f"if {count} < 0:")
        if field.nullable_in(self.version):
            self.out.line(f"    {target} = None")
        else:
            self.out.line(f"    raise null({target.split('.')[-1]!r})")
        self.out.line("else:")
        self.out.depth += 1
        if field.kind == "array":
            self.elements(field, target, count)
        else:
            self.span(field.kind, target, count)
        self.flush()
        self.out.depth -= 1

    def length(self, field: Field) -> str:
        """Read a length into a new variable; negative means null, as it does to Java."""
        count = self.out.variable("n")
        if self.flexible and field.compact:
            self.pending.append(("B", count))
            self.flush()
            self.out.line(f"if {count} > 127:")
            self.out.line(f"    {count}, pos = long_uvarint(data, pos, {count})")
            self.out.line(f"{count} -= 1")
        else:
            self.pending.append(("h" if field.kind == "string" else "i", count))
            self.flush()
        return count

    def span(self, kind: str, target: str, count: str) -> None:
        """``count`` bytes: text, bytes or a view of records."""
        stop = self.out.variable("stop")
        self.out.line(f"{stop} = pos + {count}")
        self.out.line(f"if {stop} > end:")
        self.out.line(f"    raise short({count}, end - pos)")
        piece = f"data[pos:{stop}]"
        if kind == "string":
            text = f"str({piece}, 'utf-8')" if self.view else f"{piece}.decode()"
            self.out.line(f"{target} = {text}")
        elif kind == "bytes" and self.view:
            self.out.line(f"{target} = bytes({piece})")
        else:
            self.out.line(f"{target} = {piece}")
        self.out.line(f"pos = {stop}")

    def elements(self, field: Field, target: str, count: str) -> None:
        """``count`` structures or primitives."""
        if field.element is not None and field.element.kind in _NUMBERS:
            self.numbers(field.element.kind, target, count)
            return
        smallest = self.smallest(field)
        self.out.line(f"if {count} * {smallest} > end - pos:")
        self.out.line(f"    raise short({count}, end - pos)")
        items = self.out.variable("items")
        self.out.line(f"{items} = []")
        self.out.line(f"for _ in range({count}):")
        self.out.depth += 1
        item = self.out.variable("m")
        if field.struct is not None:
            self.structure(field.struct, item)
        else:
            assert field.element is not None
            self.value(field.element, item)
        self.flush()
        self.out.line(f"{items}.append({item})")
        self.out.depth -= 1
        self.out.line(f"{target} = {items}")

    def numbers(self, kind: str, target: str, count: str) -> None:
        """An array of numbers, by one `struct` call."""
        size = struct.calcsize(">" + FORMATS[kind])
        table = self.out.constant(f"numbers_{kind}", _NUMBERS[kind])
        self.out.line(f"if {count} * {size} > end - pos:")
        self.out.line(f"    raise short({count}, end - pos)")
        self.out.line(f"if {count} < {len(_NUMBERS[kind])}:")
        self.out.line(f"    {target} = [*{table}[{count}](data, pos)]")
        self.out.line("else:")
        self.out.line(f"    {target} = [*many({kind!r}, {count}, data, pos)]")
        self.out.line(f"pos += {count} * {size}" if size > 1 else f"pos += {count}")

    def tags(self, var: str, known: dict[int, tuple[str, Field]]) -> None:
        """The section of tagged fields: known ones are read, others skipped."""
        count = self.out.variable("tags")
        self.pending.append(("B", count))
        self.flush()
        self.out.line(f"if {count}:")
        self.out.depth += 1
        self.out.line(f"if {count} > 127:")
        self.out.line(f"    {count}, pos = long_uvarint(data, pos, {count})")
        if known:
            self.known_tags(var, count, known)
        else:
            self.out.line(f"pos = skip_tags(data, pos, end, {count})")
        self.out.depth -= 1

    def known_tags(self, var: str, count: str, known: dict[int, tuple[str, Field]]) -> None:
        """A loop over tagged fields with a branch for each that the version knows."""
        size, stop = self.out.variable("size"), self.out.variable("stop")
        self.out.line(f"for _ in range({count}):")
        self.out.depth += 1
        self.out.line("tag, pos = read_uvarint(data, pos)")
        self.out.line(f"{size}, pos = read_uvarint(data, pos)")
        self.out.line(f"{stop} = pos + {size}")
        self.out.line(f"if {stop} > end:")
        self.out.line(f"    raise short({size}, end - pos)")
        for word, (tag, (name, field)) in zip(
            ["if", *["elif"] * len(known)], sorted(known.items()), strict=False
        ):
            self.out.line(f"{word} tag == {tag}:")
            self.out.depth += 1
            self.value(field, f"{var}.{name}")
            self.flush()
            self.out.line(f"if pos != {stop}:")
            self.out.line(f"    raise ValueError('tagged field {name} is not as long as it says')")
            self.out.depth -= 1
        self.out.line("else:")
        self.out.line(f"    pos = {stop}")
        self.out.depth -= 1

    def smallest(self, field: Field) -> int:
        """The fewest bytes an element of the array ``field`` takes."""
        if field.struct is not None:
            return max(1, self._smallest_struct(field.struct))
        assert field.element is not None
        return self._smallest_value(field.element)

    def _smallest_struct(self, cls: type[Struct]) -> int:
        return int(self.flexible) + sum(
            self._smallest_value(field)
            for field in cls.FIELDS.values()
            if field.exists_in(self.version) and field.tag is None
        )

    def _smallest_value(self, field: Field) -> int:
        if field.kind in FORMATS:
            return struct.calcsize(">" + FORMATS[field.kind])
        if field.kind == "struct":
            assert field.struct is not None
            return 1 if field.nullable_in(self.version) else self._smallest_struct(field.struct)
        if self.flexible and field.compact:
            return 1
        return 2 if field.kind == "string" else 4

"""Generates the encode function of a message in one version.

The function returns a list of pieces. Small values are packed together; record batches
are pieces of their own and are never copied.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from kclient.errors import ProtocolError, UnsupportedVersion
from kclient.protocol.source import FORMATS, Source
from kclient.protocol.varint import ONE_BYTE, uvarint

if TYPE_CHECKING:
    from kclient.protocol.wire import Field, Message, Struct

_LONGEST_STRING = 32767  # brokers refuse longer ones, compact or not


def source(cls: type[Message], version: int) -> tuple[str, dict[str, Any]]:
    """The text of ``encode(m) -> list of pieces`` and its namespace."""
    generator = _Encoder(cls, version)
    generator.out.line("out = []")
    generator.out.line("put = out.append")
    generator.structure(cls, "m")
    generator.flush()
    generator.out.line("return out")
    return generator.out.text("def encode(m):"), generator.out.names


def first_misfit(value: Struct, version: int, path: str = "") -> str | None:
    """Which field of ``value`` cannot be encoded and why: for the error message only."""
    for name, field in value.FIELDS.items():
        if field.exists_in(version):
            misfit = _misfit(field, getattr(value, name), version, f"{path}{name}")
            if misfit is not None:
                return misfit
    return None


def _misfit(field: Field, value: Any, version: int, path: str) -> str | None:
    if value is None:
        nullable = field.nullable_in(version)
        return None if nullable else f"{path} may not be None in this version"
    if field.kind == "array":
        return _misfit_in_array(field, value, version, path)
    if field.kind == "struct":
        assert field.struct is not None
        if not isinstance(value, field.struct):
            return f"{path} is {type(value).__name__}, not {field.struct.__name__}"
        return first_misfit(value, version, f"{path}.")
    return _misfit_of_primitive(field.kind, value, path)


def _misfit_in_array(field: Field, value: Any, version: int, path: str) -> str | None:
    if not isinstance(value, list | tuple):
        return f"{path} is {type(value).__name__}, not list"
    for index, item in enumerate(value):
        where = f"{path}[{index}]"
        if field.element is not None:
            misfit = _misfit(field.element, item, version, where)
        elif isinstance(item, field.struct or ()):
            misfit = first_misfit(item, version, f"{where}.")
        else:
            misfit = (
                f"{where} is {type(item).__name__}, not {getattr(field.struct, '__name__', '')}"
            )
        if misfit is not None:
            return misfit
    return None


def _misfit_of_primitive(kind: str, value: Any, path: str) -> str | None:
    try:
        if kind == "string":
            size = len(value.encode())
            return f"{path} is {size} bytes long, over 32767" if size > _LONGEST_STRING else None
        if kind == "uuid":
            return None if len(value.bytes) == 16 else f"{path} is no UUID"
        if kind in FORMATS:
            struct.pack(">" + FORMATS[kind], value)
        else:
            memoryview(value)
    except (struct.error, AttributeError, TypeError, UnicodeError) as exc:
        return f"{path} = {value!r:.60} is no {kind}: {exc}"
    return None


def _long_string(size: int) -> bytes:
    if size > _LONGEST_STRING + 1:
        raise ProtocolError(f"a string of {size - 1} bytes: the protocol ends at 32767")
    return uvarint(size)


def _absent(name: str, since: int, until: int, version: int) -> UnsupportedVersion:
    spoken = f"v{since} to v{until}" if until < 32767 else f"v{since} and later"
    return UnsupportedVersion(
        f"version {version} of this message has no field {name} ({spoken} do): "
        "leave it at its default, or talk to a broker that speaks such a version"
    )


_NUMBERS = {
    (kind, compact): [
        struct.Struct(f">{'B' if compact else 'i'}{count}{FORMATS[kind]}").pack
        for count in range(17)
    ]
    for kind in ("i8", "i16", "u16", "i32", "i64", "f64", "bool")
    for compact in (True, False)
}
"""Writers for short arrays of numbers with their length, by element kind and length style."""


def _many(kind: str, compact: bool, values: list[Any]) -> bytes:
    count = len(values)
    head = uvarint(count + 1) if compact else struct.pack(">i", count)
    return head + struct.pack(f">{count}{FORMATS[kind]}", *values)


class _Encoder:
    """Writes the statements for one message; ``pending`` are values not yet written.

    A pending value is a `struct` format and an expression ("x" is a zero byte and has none).
    """

    def __init__(self, cls: type[Message], version: int) -> None:
        self.version = version
        self.flexible = version >= cls.FLEXIBLE
        self.pending: list[tuple[str, str]] = []
        self.put = "put"
        self.out = Source(
            {
                "uvarint": uvarint,
                "one_byte": ONE_BYTE,
                "long_string": _long_string,
                "absent": _absent,
                "many": _many,
            }
        )

    def flush(self) -> None:
        """Write the pending values as one piece."""
        if not self.pending:
            return
        formats = "".join(fmt for fmt, _ in self.pending)
        values = ", ".join(value for fmt, value in self.pending if fmt != "x")
        self.pending = []
        if not values:
            self.out.line(f"{self.put}({bytes(len(formats))!r})")
            return
        stem, packing = self.out.packing(formats)
        self.out.line(f"{self.put}({self.out.constant(f'pack_{stem}', packing.pack)}({values}))")

    def structure(self, cls: type[Struct], var: str) -> None:
        """Statements that write the object ``var``."""
        tagged: list[tuple[int, str, Field]] = []
        for name, field in cls.FIELDS.items():
            if not field.exists_in(self.version):
                self.refuse(field, f"{var}.{name}")
            elif field.tag is None:
                self.value(field, f"{var}.{name}")
            else:
                tagged.append((field.tag, name, field))
        if tagged:
            self.tags(var, sorted(tagged))
        elif self.flexible:
            self.pending.append(("x", ""))

    def refuse(self, field: Field, value: str) -> None:
        """A field the version lacks may not carry anything, unless losing it is harmless."""
        if field.ignorable:
            return
        self.out.line(f"if {self.differs(field, value)}:")
        name = value.split(".")[-1]
        self.out.line(f"    raise absent({name!r}, {field.since}, {field.until}, {self.version})")

    def differs(self, field: Field, value: str) -> str:
        """An expression that says whether ``value`` is away from its default."""
        if field.default is None:
            return f"{value} is not None"
        if field.kind == "array":
            return f"{value} is None or {value}"
        if field.kind == "bool":
            return f"not {value}" if field.default else value
        if field.kind == "struct":
            assert field.struct is not None
            default = self.out.constant(f"default_{field.struct.__name__}", field.struct())
            return f"{value} != {default}"
        return f"{value} != {self.out.constant(f'default_{field.kind}', field.default)}"

    def value(self, field: Field, value: str) -> None:
        """Statements that write one field."""
        if field.kind == "uuid":
            self.pending.append(("16s", f"{value}.bytes"))
        elif field.kind in FORMATS:
            self.pending.append((FORMATS[field.kind], value))
        elif field.kind == "struct":
            self.nested(field, value)
        elif field.nullable_in(self.version):
            self.nullable(field, value)
        else:
            self.sized(field, value)

    def nullable(self, field: Field, value: str) -> None:
        """A null length, or what `sized` writes."""
        self.flush()
        held = self.out.variable("v")
        self.out.line(f"{held} = {value}")
        self.out.line(f"if {held} is None:")
        self.out.depth += 1
        if self.flexible and field.compact:
            self.pending.append(("x", ""))
        else:
            self.pending.append(("h" if field.kind == "string" else "i", "-1"))
        self.flush()
        self.out.depth -= 1
        self.out.line("else:")
        self.out.depth += 1
        self.sized(field, held)
        self.flush()
        self.out.depth -= 1

    def nested(self, field: Field, value: str) -> None:
        """A structure; nullable ones have a marker byte, -1 for null."""
        assert field.struct is not None
        held = self.out.variable("m")
        self.out.line(f"{held} = {value}")
        if not field.nullable_in(self.version):
            self.structure(field.struct, held)
            return
        self.flush()
        self.out.line(f"if {held} is None:")
        self.out.line(f"    {self.put}(b'\\xff')")
        self.out.line("else:")
        self.out.depth += 1
        self.pending.append(("b", "1"))
        self.structure(field.struct, held)
        self.flush()
        self.out.depth -= 1

    def sized(self, field: Field, value: str) -> None:
        """A length and what it counts."""
        if field.kind == "array":
            self.elements(field, value)
            return
        held = self.out.variable("b")
        self.out.line(
            f"{held} = {value}.encode()" if field.kind == "string" else f"{held} = {value}"
        )
        self.length(field, held)
        self.flush()
        self.out.line(f"{self.put}({held})")

    def length(self, field: Field, held: str) -> None:
        """The length of ``held``: compact ones count from one."""
        if not (self.flexible and field.compact):
            self.pending.append(("h" if field.kind == "string" else "i", f"len({held})"))
            return
        self.flush()
        count = self.out.variable("n")
        longer = "long_string" if field.kind == "string" else "uvarint"
        self.out.line(f"{count} = len({held}) + 1")
        self.out.line(f"{self.put}(one_byte[{count}] if {count} < 128 else {longer}({count}))")

    def elements(self, field: Field, value: str) -> None:
        """An array: its length, then its structures or primitives."""
        held = self.out.variable("v")
        self.out.line(f"{held} = {value}")
        if field.element is not None and (field.element.kind, True) in _NUMBERS:
            self.numbers(field, held)
            return
        self.length(field, held)
        self.flush()
        item = self.out.variable("m")
        self.out.line(f"for {item} in {held}:")
        self.out.depth += 1
        if field.struct is not None:
            self.structure(field.struct, item)
        else:
            assert field.element is not None
            self.value(field.element, item)
        self.flush()
        self.out.depth -= 1

    def numbers(self, field: Field, held: str) -> None:
        """An array of numbers and its length, by one `struct` call."""
        assert field.element is not None
        self.flush()
        kind, compact = field.element.kind, self.flexible and field.compact
        writers = _NUMBERS[kind, compact]
        table = self.out.constant(f"numbers_{kind}", writers)
        count = self.out.variable("n")
        self.out.line(f"{count} = len({held})")
        self.out.line(f"if {count} < {len(writers)}:")
        head = f"{count} + 1" if compact else count
        self.out.line(f"    {self.put}({table}[{count}]({head}, *{held}))")
        self.out.line("else:")
        self.out.line(f"    {self.put}(many({kind!r}, {compact}, {held}))")

    def tags(self, var: str, tagged: list[tuple[int, str, Field]]) -> None:
        """The section of tagged fields: those away from their default, by rising tag."""
        self.flush()
        sections = self.out.variable("tagged")
        self.out.line(f"{sections} = []")
        for tag, name, field in tagged:
            self.out.line(f"if {self.differs(field, f'{var}.{name}')}:")
            self.out.depth += 1
            self.tag(sections, tag, field, f"{var}.{name}")
            self.out.depth -= 1
        self.out.line(f"{self.put}(uvarint(len({sections})))")
        self.out.line(f"for section in {sections}:")
        self.out.line(f"    {self.put}(section)")

    def tag(self, sections: str, tag: int, field: Field, value: str) -> None:
        """One tagged field into ``sections``: number, size, content."""
        content = self.out.variable("out")
        outer, self.put = self.put, f"{content}.append"
        self.out.line(f"{content} = []")
        self.value(field, value)
        self.flush()
        self.put = outer
        joined = self.out.variable("b")
        self.out.line(f"{joined} = b''.join({content})")
        self.out.line(f"{sections}.append({uvarint(tag)!r} + uvarint(len({joined})) + {joined})")

"""The narrow waist between the record API and its two implementations.

``pure`` always works; ``_compiled``, when it was built, does the same faster. The
environment variable ``KCLIENT_IMPL`` (``c`` or ``python``) picks one strictly.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from kclient.compression import Compression, Data
from kclient.errors import ConfigError
from kclient.records.arrow_rows import ArrowRows
from kclient.records.batch import RecordBatch
from kclient.types import Header, Record


class BatchWriter(Protocol):
    """A batch that grows record by record, until it is sealed."""

    @property
    def count(self) -> int:
        """Records so far."""

    @property
    def size(self) -> int:
        """Bytes so far, headers included, before compression."""

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        timestamp: int = -1,
    ) -> int:
        """Add a record (timestamp in ms, -1 for none) and return ``size``.

        Raises SerializationError for what is not bytes, or a header key that is not text,
        ProtocolError for a timestamp of more than 64 bits; the batch is then as before.
        """

    def append_values(
        self, values: list[bytes | None], start: int, timestamp: int, limit: int
    ) -> int:
        """Add records without keys, as ``append_pairs`` does."""

    def append_pairs(
        self,
        pairs: list[tuple[bytes | None, bytes | None]],
        start: int,
        timestamp: int,
        limit: int,
    ) -> int:
        """Add keys and values from index ``start``, while ``size`` stays within ``limit``.

        All get the same timestamp (ms). Returns the index of the first pair not taken,
        ``len(pairs)`` if all were; a batch takes its first record however large it is. Raises
        what ``append`` raises; the pairs before the wrong one are then in the batch, which
        ``count`` tells.
        """

    def append_arrow(self, rows: ArrowRows, start: int, timestamp: int, limit: int) -> int:
        """Add Arrow rows from index ``start``, while ``size`` stays within ``limit``.

        As ``append_pairs``; ``timestamp`` (ms) is for rows that have none of their own.
        """

    def seal(
        self,
        *,
        base_offset: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
    ) -> bytes:
        """Return the finished batch: header, checksum, compressed if so opened.

        May be called again, say with a new producer epoch. Raises ProtocolError if a number
        does not fit the format.
        """


class Implementation(Protocol):
    """What a twin offers, as a module: all of it about batch v2."""

    NAME: str

    def open_batch(self, compression: Compression) -> BatchWriter:
        """Start a batch."""

    def read_records(self, section: Data, batch: RecordBatch) -> list[Record]:
        """Read the records of ``batch`` from its decompressed section, or CorruptRecord."""

    def read_arrow(self, batches: Iterable[tuple[RecordBatch, Data]]) -> Any:
        """Read batches with their decompressed sections into one ``pyarrow.Table``."""

    def crc32c(self, data: Data) -> int:
        """Checksum ``data`` with CRC-32C."""

    def murmur2(self, key: bytes) -> int:
        """Hash ``key`` as Java's ``Utils.murmur2`` does, to a signed number of 32 bits."""

    def murmur2_partitions(self, keys: list[bytes], count: int) -> list[int]:
        """Give each key its partition out of ``count``, as Java's default partitioner does.

        Raises ValueError for a ``count`` below 1.
        """

    def murmur2_arrow(self, rows: ArrowRows, count: int) -> Any:
        """Do the same for the keys of Arrow rows, to a ``pyarrow.Int32Array``.

        A row without a key has null.
        """


_MODULES = {"c": "kclient.records._compiled", "python": "kclient.records.pure"}


def select(name: str | None) -> Implementation:
    """Return the implementation called ``name``; without a name the fastest there is.

    Raises ConfigError for another name, or ``c`` when the compiled module is missing.
    """
    if not name:
        try:
            return _load("c")
        except ImportError:
            return _load("python")
    if name not in _MODULES:
        raise ConfigError(f"KCLIENT_IMPL={name!r}: it must be 'c' or 'python'")
    try:
        return _load(name)
    except ImportError as error:
        raise ConfigError(
            f"KCLIENT_IMPL={name}, but {_MODULES[name]} is not built: install kclient where "
            "there is a C compiler, or unset the variable"
        ) from error


def _load(name: str) -> Implementation:
    return cast(Implementation, import_module(_MODULES[name]))


active = select(os.environ.get("KCLIENT_IMPL"))
"""The implementation in use."""

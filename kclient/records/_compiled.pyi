from collections.abc import Iterable, Sequence
from typing import Any

from kclient.compression import Compression, Data
from kclient.records.arrow_rows import ArrowRows
from kclient.records.batch import RecordBatch
from kclient.types import Header, Record

NAME: str

class CompiledBatchWriter:
    @property
    def count(self) -> int: ...
    def __init__(self, compression: Compression) -> None: ...
    @property
    def size(self) -> int: ...
    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        timestamp: int = -1,
    ) -> int: ...
    def append_values(
        self, values: list[bytes | None], start: int, timestamp: int, limit: int
    ) -> int: ...
    def append_pairs(
        self,
        pairs: list[tuple[bytes | None, bytes | None]],
        start: int,
        timestamp: int,
        limit: int,
    ) -> int: ...
    def append_arrow(self, rows: ArrowRows, start: int, timestamp: int, limit: int) -> int: ...
    def seal(
        self,
        *,
        base_offset: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
    ) -> bytes: ...

def open_batch(compression: Compression) -> CompiledBatchWriter: ...
def read_records(section: Data, batch: RecordBatch) -> list[Record]: ...
def read_arrow(batches: Iterable[tuple[RecordBatch, Data]]) -> Any: ...
def crc32c(data: Data) -> int: ...
def murmur2(key: bytes) -> int: ...
def murmur2_partitions(keys: list[bytes], count: int) -> list[int]: ...
def murmur2_arrow(rows: ArrowRows, count: int) -> Any: ...

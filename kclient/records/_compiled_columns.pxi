# From sections to Arrow columns, without a Python object for each record. See ``arrow``.

from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc

cdef object pa = None  # pyarrow, from the first use on
cdef dict KINDS = None  # Arrow's type of each column


cdef int load_arrow() except -1:
    global pa, KINDS
    if pa is None:
        import pyarrow

        from kclient.records.arrow import schema

        KINDS = {field.name: field.type for field in schema()}
        pa = pyarrow
    return 0


COLUMN_LIMIT = MAX_SIZE
"""Bytes that a column of one table may have, for its offsets are 32-bit; a test lowers it."""

cdef struct Bytes:
    uint8_t *data
    Py_ssize_t used
    Py_ssize_t capacity


cdef int reserve(Bytes *store, int64_t more) noexcept nogil:
    """Make room for ``more`` bytes; 0 if there is no memory. Only this allocates."""
    cdef int64_t capacity
    cdef void *data
    if more <= store.capacity - store.used:
        return 1
    capacity = max(store.used + more, 2 * <int64_t>store.capacity, <int64_t>64)
    data = PyMem_RawRealloc(store.data, <size_t>capacity)
    if data == NULL:
        return 0
    store.data = <uint8_t *>data
    store.capacity = <Py_ssize_t>capacity
    return 1


cdef inline void put_int32(Bytes *store, int32_t number) noexcept nogil:
    """Append where ``reserve`` made room."""
    memcpy(store.data + store.used, &number, 4)
    store.used += 4


cdef inline void put_int64(Bytes *store, int64_t number) noexcept nogil:
    """Append where ``reserve`` made room."""
    memcpy(store.data + store.used, &number, 8)
    store.used += 8


@cython.final
cdef class Memory:
    """Bytes that Arrow reads for as long as it holds this object."""

    cdef Bytes _bytes

    def __dealloc__(self):
        PyMem_RawFree(self._bytes.data)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self._bytes.data, self._bytes.used, 1, flags)


cdef struct Column:
    Bytes offsets  # 0, then where each row ends in ``data``
    Bytes data
    Bytes valid  # a bit for each row
    int64_t rows
    int64_t nulls


cdef int reserve_valid(Column *column, int64_t more) noexcept nogil:
    """Make room for ``more`` bits; each says "valid" until it is changed."""
    cdef Py_ssize_t grown = (column.rows + more + 7) // 8 - column.valid.used
    if grown > 0:
        if not reserve(&column.valid, grown):
            return 0
        memset(column.valid.data + column.valid.used, 0xFF, grown)
        column.valid.used += grown
    return 1


cdef int reserve_offsets(Bytes *offsets, int64_t more) noexcept nogil:
    """Make room for ``more`` offsets behind the 0 that comes first."""
    if not reserve(offsets, 4 * (more + 1)):
        return 0
    if not offsets.used:
        put_int32(offsets, 0)
    return 1


cdef inline int reserve_rows(Column *column, int64_t more) noexcept nogil:
    """Make room for ``more`` rows, without their bytes."""
    return reserve_valid(column, more) and reserve_offsets(&column.offsets, more)


cdef inline void mark_null(Column *column) noexcept nogil:
    """Say that the next row is null; ``reserve_rows`` made room."""
    column.valid.data[column.rows >> 3] &= <uint8_t>~(1 << (column.rows & 7))
    column.nulls += 1


cdef inline int put_row(Column *column, Slice part) noexcept nogil:
    """Append a row where ``reserve_rows`` made room; 0 if there is no memory for its bytes."""
    if part.size > 0:
        if not reserve(&column.data, part.size):
            return 0
        memcpy(column.data.data + column.data.used, part.data, part.size)
        column.data.used += part.size
    elif part.size < 0:
        mark_null(column)
    put_int32(&column.offsets, <int32_t>column.data.used)
    column.rows += 1
    return 1


cdef void free_column(Column *column) noexcept:
    PyMem_RawFree(column.offsets.data)
    PyMem_RawFree(column.data.data)
    PyMem_RawFree(column.valid.data)


cdef object taken(Bytes *store):
    """Hand the bytes over to Arrow."""
    cdef Memory memory = Memory.__new__(Memory)
    cdef void *data
    if store.data == NULL:
        return pa.py_buffer(b"")
    data = PyMem_RawRealloc(store.data, max(store.used, 1))
    if data != NULL:  # smaller now
        store.data = <uint8_t *>data
    memory._bytes = store[0]
    store.data = NULL
    store.used = store.capacity = 0
    return pa.py_buffer(memory)


cdef object taken_column(Column *column, object kind):
    """Hand a column of strings or bytes over to Arrow."""
    cdef object rows = column.rows
    cdef object nulls = column.nulls
    valid = taken(&column.valid)
    buffers = [valid if nulls else None, taken(&column.offsets), taken(&column.data)]
    column.rows = column.nulls = 0
    return pa.Array.from_buffers(kind, rows, buffers, null_count=nulls)


@cython.final
cdef class Rows:
    """The columns of a table that grows batch by batch."""

    cdef Column key
    cdef Column value
    cdef Column topic
    cdef Column header_key
    cdef Column header_value
    cdef Bytes header_ends
    cdef Bytes partition
    cdef Bytes kind
    cdef Bytes offset
    cdef Column timestamp
    cdef bint foreign_text  # some header key is not ASCII

    def __dealloc__(self):
        free_column(&self.key)
        free_column(&self.value)
        free_column(&self.topic)
        free_column(&self.header_key)
        free_column(&self.header_value)
        free_column(&self.timestamp)
        PyMem_RawFree(self.header_ends.data)
        PyMem_RawFree(self.partition.data)
        PyMem_RawFree(self.kind.data)
        PyMem_RawFree(self.offset.data)

    cdef int64_t largest(self) noexcept:
        """Bytes of the largest column that has 32-bit offsets."""
        return max(
            self.key.data.used,
            self.value.data.used,
            self.topic.data.used,
            self.header_key.data.used,
            self.header_value.data.used,
            self.header_key.rows,
        )

    cdef int reserve(self, int64_t count) noexcept nogil:
        """Make room for ``count`` rows, without bytes and headers; 0 if there is none."""
        return (
            reserve_rows(&self.key, count)
            and reserve_rows(&self.value, count)
            and reserve_rows(&self.topic, count)
            and reserve_valid(&self.timestamp, count)
            and reserve(&self.timestamp.data, 8 * count)
            and reserve_offsets(&self.header_ends, count)
            and reserve(&self.partition, 4 * count)
            and reserve(&self.kind, 4 * count)
            and reserve(&self.offset, 8 * count)
        )

    cdef int add(self, const uint8_t *data, Py_ssize_t size, object batch) except -1:
        """Add the rows of a batch from its section; all of it without the GIL."""
        cdef int64_t count = batch.record_count
        cdef int64_t base_offset = batch.base_offset
        cdef int64_t base_timestamp = batch.base_timestamp
        cdef int64_t max_timestamp = batch.max_timestamp
        cdef bint appended = batch.attributes & LOG_APPEND_TIME
        cdef int32_t partition = batch.partition
        cdef int32_t kind = batch.timestamp_type
        cdef bytes topic = batch.topic.encode()
        cdef Slice name = slice_of(topic)
        cdef Cursor at = Cursor(data, data + size, FINE)
        cdef Fields found
        cdef int64_t index
        cdef int64_t offset = -1
        check_counts(batch, count, size)
        with nogil:
            if count > 0 and not self.reserve(count):
                at.fault = NO_MEMORY
            for index in range(count):
                if at.fault != FINE:
                    break
                get_record(&at, base_timestamp, &found)
                offset = <int64_t>(<uint64_t>base_offset + <uint64_t>found.delta)
                put_int64(&self.offset, offset)
                put_int32(&self.partition, partition)
                put_int32(&self.kind, kind)
                self.put_time(max_timestamp if appended else found.timestamp)
                if found.headers:
                    self.put_headers(&found, &at)
                put_int32(&self.header_ends, <int32_t>self.header_key.rows)
                if not (
                    put_row(&self.key, found.key)
                    and put_row(&self.value, found.value)
                    and put_row(&self.topic, name)
                ):
                    at.fault = NO_MEMORY
        check_end(batch, &at, size, offset)
        return 0

    cdef inline void put_time(self, int64_t timestamp) noexcept nogil:
        if timestamp == -1:
            mark_null(&self.timestamp)
        put_int64(&self.timestamp.data, timestamp)
        self.timestamp.rows += 1

    cdef void put_headers(self, Fields *found, Cursor *at) noexcept nogil:
        cdef Slice key, value
        cdef Py_ssize_t index
        cdef uint8_t bits = 0
        for _ in range(found.headers):
            get_header(&found.rest, &key, &value)
            if not (
                reserve_rows(&self.header_key, 1)
                and put_row(&self.header_key, key)
                and reserve_rows(&self.header_value, 1)
                and put_row(&self.header_value, value)
            ):
                blame(&found.rest, NO_MEMORY)
            if found.rest.fault != FINE:
                break
            for index in range(key.size):
                bits |= key.data[index]
        if bits > 0x7F:
            self.foreign_text = True
        if found.rest.pos != found.rest.end:
            blame(&found.rest, DISAGREE)
        at.fault = found.rest.fault

    cdef object table(self):
        """Hand all over to Arrow, and begin anew."""
        from kclient.records.arrow import schema

        rows = self.key.rows
        valid = taken(&self.timestamp.valid)
        valid = valid if self.timestamp.nulls else None
        columns = [  # in the order of the schema
            taken_column(&self.key, KINDS["key"]),
            taken_column(&self.value, KINDS["value"]),
            taken_column(&self.topic, KINDS["topic"]),
            plain_column(KINDS["partition"], rows, None, &self.partition),
            plain_column(KINDS["offset"], rows, None, &self.offset),
            plain_column(KINDS["timestamp"], rows, valid, &self.timestamp.data),
            plain_column(KINDS["timestamp_type"], rows, None, &self.kind),
            self.headers(KINDS["headers"], rows),
        ]
        self.timestamp.rows = self.timestamp.nulls = 0
        return pa.Table.from_arrays(columns, schema=schema())

    cdef object headers(self, object kind, object rows):
        count = self.header_key.rows
        pair = kind.value_type
        keys = taken_column(&self.header_key, pair.field("key").type)
        values = taken_column(&self.header_value, pair.field("value").type)
        if self.foreign_text:
            keys = readable(keys)
        self.foreign_text = False
        pairs = pa.Array.from_buffers(pair, count, [None], children=[keys, values])
        ends = taken(&self.header_ends)
        return pa.Array.from_buffers(kind, rows, [None, ends], children=[pairs])


cdef object plain_column(object kind, object rows, object valid, Bytes *store):
    return pa.Array.from_buffers(kind, rows, [valid, taken(store)])


cdef object readable(object texts):
    """Header keys with bad UTF-8 replaced, as in ``read_records``."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        raw = texts.view(pa.binary()).to_pylist()
        return pa.array([text.decode("utf-8", "replace") for text in raw], pa.string())
    return texts


def read_arrow(batches):
    """Read batches v2, each with its decompressed section, into one ``pyarrow.Table``."""
    from kclient.records import arrow

    cdef Rows rows = Rows.__new__(Rows)
    cdef Py_buffer view
    cdef int64_t limit = COLUMN_LIMIT
    cdef int64_t most
    tables = []
    load_arrow()
    for batch, section in batches:
        PyObject_GetBuffer(section, &view, PyBUF_SIMPLE)
        try:
            # Keys, values and headers are never larger than all of the section.
            most = max(view.len, <int64_t>batch.record_count * len(batch.topic.encode()))
            if most > limit - rows.largest():
                tables.append(rows.table())
            if most > limit:
                tables.append(arrow.table(records_in(<const uint8_t *>view.buf, view.len, batch)))
            else:
                rows.add(<const uint8_t *>view.buf, view.len, batch)
        finally:
            PyBuffer_Release(&view)
    tables.append(rows.table())
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

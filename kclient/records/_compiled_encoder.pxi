# Records into a batch, and Arrow rows into records; all of it works without the GIL.

cdef struct Batch:
    uint8_t *start
    Py_ssize_t used
    Py_ssize_t capacity
    int64_t count
    int64_t base_timestamp
    int64_t max_timestamp


cdef inline int64_t distance(Batch *batch, int64_t time) noexcept nogil:
    """From the first timestamp to ``time``; wraps around as Java's 64-bit sums do."""
    return <int64_t>(<uint64_t>time - <uint64_t>batch.base_timestamp) if batch.count else 0


cdef inline int64_t fields_size(Batch *batch, int64_t time, Slice key, Slice value) noexcept nogil:
    """Bytes that ``put_fields`` writes behind the record's length."""
    return (
        1
        + varint_size(zigzag(distance(batch, time)))
        + varint_size(<uint64_t>batch.count << 1)
        + slice_size(key)
        + slice_size(value)
    )


cdef inline uint8_t *put_fields(
    Batch *batch, int64_t size, int64_t time, Slice key, Slice value
) noexcept nogil:
    """Write a record of ``size`` bytes, but for its headers: those go to the result."""
    cdef uint8_t *out = put_varint(batch.start + batch.used, <uint64_t>size << 1)
    out[0] = 0
    out = put_varint(out + 1, zigzag(distance(batch, time)))
    out = put_varint(out, <uint64_t>batch.count << 1)
    return put_slice(put_slice(out, key), value)


cdef inline void count_in(Batch *batch, uint8_t *end, int64_t time) noexcept nogil:
    """Take note of a record that was written up to ``end``."""
    batch.used = end - batch.start
    if not batch.count:
        batch.base_timestamp = batch.max_timestamp = time
    elif time > batch.max_timestamp:
        batch.max_timestamp = time
    batch.count += 1


cdef inline int64_t whole_size(int64_t size) noexcept nogil:
    """Bytes of a record with its length in front."""
    return varint_size(<uint64_t>size << 1) + size


# --- Arrow rows: see ``arrow_rows`` ---

cdef struct Source:
    bint present
    const uint8_t *validity
    const uint8_t *numbers
    const uint8_t *data
    int64_t size
    bint wide
    int64_t shift


cdef struct Sources:
    Source key
    Source value
    Source timestamp
    Source headers
    Source header_key
    Source header_value


cdef enum Stop:
    AT_END  # of the rows, or of what the limit allows
    NEEDS_ROOM
    TOO_LARGE
    KEYLESS_HEADER
    CHANGED  # Arrow's buffers are not what they were when they were checked


cdef inline bint is_null(Source *column, int64_t pos) noexcept nogil:
    return column.validity != NULL and not column.validity[pos >> 3] >> (pos & 7) & 1


cdef inline void bounds(Source *column, int64_t pos, int64_t *begin, int64_t *end) noexcept nogil:
    """Read two offsets, which need not be aligned."""
    cdef int32_t narrow[2]
    if column.wide:
        memcpy(begin, column.numbers + 8 * pos, 8)
        memcpy(end, column.numbers + 8 * pos + 8, 8)
    else:
        memcpy(narrow, column.numbers + 4 * pos, 8)
        begin[0] = narrow[0]
        end[0] = narrow[1]


cdef inline Slice cell(Source *column, int64_t row, Stop *stop) noexcept nogil:
    """Bytes of a row that the column has. Offsets are judged again: memory may change."""
    cdef int64_t begin, end
    cdef Slice found
    if not column.present or is_null(column, column.shift + row):
        return NULL_SLICE
    bounds(column, column.shift + row, &begin, &end)
    if begin < 0 or begin > end or end > column.size:
        stop[0] = CHANGED
        return NULL_SLICE
    found.data = column.data + begin
    found.size = <Py_ssize_t>(end - begin)
    return found


cdef inline int64_t time_of(Source *column, int64_t row, int64_t otherwise) noexcept nogil:
    cdef int64_t time
    if not column.present or is_null(column, column.shift + row):
        return otherwise
    memcpy(&time, column.numbers + 8 * (column.shift + row), 8)
    return time


cdef int64_t row_headers_size(
    Sources *rows, int64_t row, int64_t *begin, int64_t *end, Stop *stop
) noexcept nogil:
    """Bytes of a row's headers, which are the elements from ``begin`` to ``end``."""
    cdef Source *lists = &rows.headers
    cdef int64_t size, index
    cdef Slice key
    begin[0] = end[0] = 0
    if not lists.present or is_null(lists, lists.shift + row):
        return 1
    bounds(lists, lists.shift + row, begin, end)
    if begin[0] < 0 or begin[0] > end[0] or end[0] > lists.size:
        stop[0] = CHANGED
        return 1
    size = varint_size(<uint64_t>(end[0] - begin[0]) << 1)
    for index in range(begin[0], end[0]):
        key = cell(&rows.header_key, index, stop)
        if key.size < 0 and stop[0] == AT_END:
            stop[0] = KEYLESS_HEADER
        size += slice_size(key) + slice_size(cell(&rows.header_value, index, stop))
        if stop[0] != AT_END or size > MAX_SIZE:
            break
    return size


cdef int64_t encode_rows(
    Batch *batch,
    Sources *rows,
    int64_t row,
    int64_t last,
    int64_t timestamp,
    int64_t room,
    Stop *stop,
    int64_t *need,
) noexcept nogil:
    """Write rows up to ``last``, and tell the first one not written; ``stop`` says why.

    ``need`` is what that one takes, in bytes.
    """
    cdef Slice key, value, part
    cdef int64_t time, size, begin, end, index
    cdef uint8_t *out
    cdef uint8_t *limit
    stop[0] = AT_END
    while row < last:
        key = cell(&rows.key, row, stop)
        value = cell(&rows.value, row, stop)
        time = time_of(&rows.timestamp, row, timestamp)
        size = row_headers_size(rows, row, &begin, &end, stop)
        size += fields_size(batch, time, key, value)
        need[0] = whole_size(size)
        if size > MAX_SIZE and stop[0] == AT_END:
            stop[0] = TOO_LARGE
        if stop[0] != AT_END:
            break
        if batch.count and batch.used + need[0] > room:
            break
        if need[0] > batch.capacity - batch.used:
            stop[0] = NEEDS_ROOM
            break
        limit = batch.start + batch.used + need[0]
        out = put_fields(batch, size, time, key, value)
        out = put_varint(out, <uint64_t>(end - begin) << 1)
        for index in range(begin, end):
            part = cell(&rows.header_key, index, stop)
            if slice_size(part) <= limit - out:
                out = put_slice(out, part)
            part = cell(&rows.header_value, index, stop)
            if slice_size(part) <= limit - out:
                out = put_slice(out, part)
        if out != limit:  # the headers are read twice
            stop[0] = CHANGED
            break
        count_in(batch, out, time)
        row += 1
    return row

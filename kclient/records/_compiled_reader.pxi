# From a section to records. See ``pure``.

cdef struct Fields:
    int64_t timestamp
    int64_t delta
    Slice key
    Slice value
    Py_ssize_t headers
    Cursor rest  # of the record: its headers


cdef inline void get_record(Cursor *at, int64_t base_timestamp, Fields *found) noexcept nogil:
    """Read a record up to its headers; what is wrong is left in ``at.fault``."""
    cdef uint64_t length = get_varint(at, 5)
    cdef uint64_t delta, count
    cdef Cursor own
    if length & 1:
        blame(at, NEGATIVE)
    if length >> 1 > <uint64_t>(at.end - at.pos):
        blame(at, CUT_SHORT)
        length = 0
    own.pos = at.pos
    own.end = at.pos + (length >> 1)
    own.fault = at.fault
    at.pos = own.end
    get_byte(&own)  # the record's attributes, which are unused
    delta = get_varint(&own, 10)
    found.timestamp = <int64_t>(<uint64_t>base_timestamp + <uint64_t>unzigzag(delta))
    delta = get_varint(&own, 5)
    if delta & 1:
        blame(&own, NEGATIVE)
    found.delta = <int64_t>(delta >> 1)
    found.key = get_slice(&own)
    found.value = get_slice(&own)
    count = get_varint(&own, 5)
    if count & 1 or count > <uint64_t>(own.end - own.pos):  # each takes two bytes or more
        blame(&own, HEADER_COUNT)
        count = 0
    if not count and own.pos != own.end:
        blame(&own, DISAGREE)
    found.headers = <Py_ssize_t>(count >> 1)
    found.rest = own
    at.fault = own.fault


cdef inline void get_header(Cursor *at, Slice *key, Slice *value) noexcept nogil:
    key[0] = get_slice(at)
    if key.size < 0:
        blame(at, NO_HEADER_KEY)
    value[0] = get_slice(at)


cdef inline object bytes_of(Slice part):
    if part.size < 0:
        return None
    return PyBytes_FromStringAndSize(<const char *>part.data, part.size)


cdef tuple get_headers(Fields *found, Cursor *at):
    """Read the headers of a record; None if something is wrong. Bad UTF-8 is replaced."""
    cdef list headers = []
    cdef Slice key, value
    for _ in range(found.headers):
        get_header(&found.rest, &key, &value)
        if found.rest.fault != FINE:
            break
        text = PyUnicode_DecodeUTF8(<const char *>key.data, key.size, "replace")
        headers.append((text, bytes_of(value)))
    if found.rest.pos != found.rest.end:
        blame(&found.rest, DISAGREE)
    at.fault = found.rest.fault
    return tuple(headers)


cdef int check_counts(object batch, int64_t count, Py_ssize_t size) except -1:
    if count > size // 7:
        raise corrupt_batch(batch, f"{count} records cannot be in {size} bytes")
    return 0


cdef int check_end(object batch, Cursor *at, Py_ssize_t size, int64_t last) except -1:
    """Refuse a section that holds anything but the right records up to offset ``last``."""
    if at.fault == NO_MEMORY:
        raise MemoryError
    if at.fault != FINE:
        raise corrupt_batch(batch, FAULTS[at.fault])
    if at.pos != at.end:
        used = size - (at.end - at.pos)
        raise corrupt_batch(batch, f"{used} bytes of records in a section of {size}")
    if last > <int64_t>batch.last_offset:
        raise corrupt_batch(batch, f"a record lies beyond the last offset {batch.last_offset}")
    return 0


def read_records(section, batch):
    """Read the records of a batch v2 from its decompressed ``section``.

    Raises CorruptRecord unless the section holds exactly the records that the header counts.
    """
    cdef Py_buffer view
    PyObject_GetBuffer(section, &view, PyBUF_SIMPLE)
    try:
        return records_in(<const uint8_t *>view.buf, view.len, batch)
    finally:
        PyBuffer_Release(&view)


cdef list records_in(const uint8_t *data, Py_ssize_t size, object batch):
    cdef int64_t count = batch.record_count
    cdef int64_t base_offset = batch.base_offset
    cdef int64_t base_timestamp = batch.base_timestamp
    cdef bint appended = batch.attributes & LOG_APPEND_TIME
    cdef int64_t last_time = batch.max_timestamp
    cdef object topic = batch.topic
    cdef object partition = batch.partition
    cdef object kind = batch.timestamp_type
    cdef object epoch = batch.leader_epoch
    cdef object timestamp = last_time
    cdef object record, headers
    cdef list records = []
    cdef Cursor at = Cursor(data, data + size, FINE)
    cdef Fields found
    cdef int64_t offset = -1
    check_counts(batch, count, size)
    while len(records) < count:
        get_record(&at, base_timestamp, &found)
        headers = get_headers(&found, &at) if found.headers else ()
        if at.fault != FINE:
            break
        if not appended and found.timestamp != last_time:
            last_time = found.timestamp
            timestamp = last_time
        offset = <int64_t>(<uint64_t>base_offset + <uint64_t>found.delta)
        record = kc_new_tuple(Record, 9)
        kc_set_item(record, 0, topic)
        kc_set_item(record, 1, partition)
        kc_set_item(record, 2, offset)
        kc_set_item(record, 3, timestamp)
        kc_set_item(record, 4, kind)
        kc_set_item(record, 5, bytes_of(found.key))
        kc_set_item(record, 6, bytes_of(found.value))
        kc_set_item(record, 7, headers)
        kc_set_item(record, 8, epoch)
        records.append(record)
    check_end(batch, &at, size, offset)
    return records


if Record.__bases__ != (tuple,) or len(Record._fields) != 9 or Record.__itemsize__ != tuple.__itemsize__:
    raise RuntimeError("kclient.types.Record is not what this module was built for: build it anew")
if HEADER_SIZE != BATCH_HEADER:
    raise RuntimeError("kclient.records.batch.HEADER is not what this module was built for")

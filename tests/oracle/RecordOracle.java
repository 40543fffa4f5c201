import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.common.utils.Utils;

/**
 * Kafka's own writer and reader of records. Standard input has a JSON object a line: either
 * {"bytes": hex}, or {"batches": [...], "keep": [offsets]} to be written by Java, and compacted
 * if "keep" is there. Each is answered by a line with the bytes, and with all that Java read from
 * them after checking every checksum; or with "error".
 */
public class RecordOracle {
    static final HexFormat HEX = HexFormat.of();
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode task = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            try {
                ByteBuffer data = task.has("bytes") ? ByteBuffer.wrap(HEX.parseHex(task.get("bytes").asText())) : write(task);
                answer.put("bytes", HEX.formatHex(Utils.toArray(data)));
                answer.set("batches", read(MemoryRecords.readableRecords(data)));
            } catch (RuntimeException refused) {
                answer.put("error", refused.toString());
            }
            out.println(JSON.writeValueAsString(answer));
        }
        out.flush();
    }

    // --- reading -------------------------------------------------------------------------

    static ArrayNode read(MemoryRecords records) {
        ArrayNode batches = JSON.createArrayNode();
        int size = 0;
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            size += batch.sizeInBytes();
            ObjectNode node = batches.addObject();
            node.put("magic", batch.magic());
            node.put("codec", batch.compressionType().id);
            node.put("last_offset", batch.lastOffset());
            node.put("max_timestamp", batch.maxTimestamp());
            node.put("timestamp_type", batch.timestampType().id);
            node.put("leader_epoch", batch.partitionLeaderEpoch());
            node.put("producer_id", batch.producerId());
            node.put("producer_epoch", batch.producerEpoch());
            node.put("base_sequence", batch.baseSequence());
            node.put("is_transactional", batch.isTransactional());
            node.put("is_control", batch.isControlBatch());
            if (batch.magic() >= 2) {
                node.put("base_offset", batch.baseOffset());
                node.put("record_count", batch.countOrNull());
            }
            ArrayNode found = node.putArray("records");
            for (Record record : batch) {
                record.ensureValid();
                found.add(read(record, batch.isControlBatch()));
            }
        }
        if (size != records.sizeInBytes()) {
            throw new IllegalStateException(size + " of " + records.sizeInBytes() + " bytes read");
        }
        return batches;
    }

    static ObjectNode read(Record record, boolean isControl) {
        ObjectNode node = JSON.createObjectNode();
        node.put("offset", record.offset());
        node.put("timestamp", record.timestamp());
        node.put("key", hex(record.key()));
        node.put("value", hex(record.value()));
        ArrayNode headers = node.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value() == null ? null : HEX.formatHex(header.value()));
        }
        if (isControl) {
            node.put("control", ControlRecordType.parse(record.key()).name());
        }
        return node;
    }

    static String hex(ByteBuffer data) {
        return data == null ? null : HEX.formatHex(Utils.toArray(data));
    }

    // --- writing -------------------------------------------------------------------------

    static ByteBuffer write(JsonNode task) throws Exception {
        ByteBufferOutputStream all = new ByteBufferOutputStream(4096);
        for (JsonNode batch : task.get("batches")) {
            all.write(writeBatch(batch));
        }
        ByteBuffer written = all.buffer();
        written.flip();
        return task.has("keep") ? compact(MemoryRecords.readableRecords(written), task.get("keep")) : written;
    }

    static ByteBuffer writeBatch(JsonNode spec) {
        long baseOffset = spec.path("base_offset").asLong(0);
        long time = spec.path("append_time").asLong(-1);
        int leaderEpoch = spec.path("leader_epoch").asInt(-1);
        long producerId = spec.path("producer_id").asLong(-1);
        short producerEpoch = (short) spec.path("producer_epoch").asInt(-1);
        String marker = spec.path("marker").asText("");
        if (marker.equals("LEADER_CHANGE")) {
            LeaderChangeMessage message = new LeaderChangeMessage().setLeaderId(7);
            return MemoryRecords.withLeaderChangeMessage(baseOffset, time, leaderEpoch, ByteBuffer.allocate(512), message).buffer();
        }
        if (!marker.isEmpty()) {
            EndTransactionMarker end = new EndTransactionMarker(ControlRecordType.valueOf(marker), 3);
            return MemoryRecords.withEndTransactionMarker(baseOffset, time, leaderEpoch, producerId, producerEpoch, end).buffer();
        }
        TimestampType timestampType = spec.has("append_time") ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        byte magic = (byte) spec.get("magic").asInt();
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(1024), magic, Compression.of(spec.path("codec").asText("none")).build(),
            magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : timestampType, baseOffset, time, producerId, producerEpoch,
            spec.path("base_sequence").asInt(-1), spec.path("transactional").asBoolean(false), leaderEpoch);
        for (JsonNode record : spec.get("records")) {
            builder.appendWithOffset(
                record.get("offset").asLong(), record.get("timestamp").asLong(),
                bytes(record.get("key")), bytes(record.get("value")), headers(record.get("headers")));
        }
        return builder.build().buffer();
    }

    static byte[] bytes(JsonNode hex) {
        return hex.isNull() ? null : HEX.parseHex(hex.asText());
    }

    static Header[] headers(JsonNode pairs) {
        Header[] headers = new Header[pairs.size()];
        for (int index = 0; index < headers.length; index++) {
            headers[index] = new RecordHeader(pairs.get(index).get(0).asText(), bytes(pairs.get(index).get(1)));
        }
        return headers;
    }

    /** Compacts as the log cleaner does: keeps some offsets, and every batch of a producer even if empty. */
    static ByteBuffer compact(MemoryRecords records, JsonNode offsets) throws Exception {
        Set<Long> keep = new HashSet<>();
        offsets.forEach(offset -> keep.add(offset.asLong()));
        MemoryRecords.RecordFilter filter = new MemoryRecords.RecordFilter(0, 0) {
            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                boolean canBeEmpty = batch.magic() >= 2;
                return new BatchRetentionResult(canBeEmpty ? BatchRetention.RETAIN_EMPTY : BatchRetention.DELETE_EMPTY, false);
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return keep.contains(record.offset());
            }
        };
        ByteBuffer out = ByteBuffer.allocate(1 << 20);
        for (Method method : MemoryRecords.class.getMethods()) {  // 4.x dropped two parameters
            if (method.getName().equals("filterTo") && method.getParameterCount() == 3) {
                method.invoke(records, filter, out, BufferSupplier.NO_CACHING);
            } else if (method.getName().equals("filterTo")) {
                method.invoke(records, new TopicPartition("t", 0), filter, out, Integer.MAX_VALUE, BufferSupplier.NO_CACHING);
            }
        }
        out.flip();
        return out;
    }
}

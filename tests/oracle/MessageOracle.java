import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/**
 * Fills Kafka's own message classes in many ways and prints, a line each:
 * class, version, way of filling, bytes by Kafka's serializer (hex), and the values (JSON).
 * Reads "class version" lines from standard input; prints nothing for what the jar does not speak.
 */
public class MessageOracle {
    enum Fill { DEFAULTS, FULL, NULLS, LOWEST, HIGHEST, LONG, UNKNOWN_TAGS, RANDOM_1, RANDOM_2, RANDOM_3 }

    static final String UNICODE = "Grüße, 世界 \uD83D\uDE80 \u0000\u007f\u0080";
    static final HexFormat HEX = HexFormat.of();

    final Fill fill;
    final Random random;
    final short version;
    int counter = 0;

    MessageOracle(Fill fill, String name, short version) {
        this.fill = fill;
        this.version = version;
        this.random = new Random(fill.ordinal() * 1_000_003L + name.hashCode() * 31L + version);
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            short version = Short.parseShort(words[1]);
            if (speaks(words[0], version)) {
                Class<?> type = messageClass(words[0]);
                for (Fill fill : Fill.values()) {
                    print(out, words[0], type, version, fill);
                }
            }
        }
        out.flush();
    }

    static Class<?> messageClass(String name) throws ClassNotFoundException {
        return Class.forName("org.apache.kafka.common.message." + name);
    }

    static boolean speaks(String name, short version) throws Exception {
        try {
            Class<?> type = messageClass(name);
            return type.getField("LOWEST_SUPPORTED_VERSION").getShort(null) <= version
                && version <= type.getField("HIGHEST_SUPPORTED_VERSION").getShort(null);
        } catch (ClassNotFoundException absent) {
            return false;
        }
    }

    static void print(PrintStream out, String name, Class<?> type, short version, Fill fill) throws Exception {
        Schema schema = ((Schema[]) type.getField("SCHEMAS").get(null))[version];
        Message message = (Message) type.getDeclaredConstructor().newInstance();
        new MessageOracle(fill, name, version).fill(message, schema);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(name + " v" + version + " is shorter than its size");
        }
        StringBuilder json = new StringBuilder();
        dump(message, json);
        out.println(name + "\t" + version + "\t" + fill + "\t" + HEX.formatHex(buffer.array()) + "\t" + json);
    }

    // ---- filling ----

    void fill(Object target, Schema schema) throws Exception {
        boolean flexible = false;
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields) {
                flexible = true;
                for (var tagged : taggedFields(bound.def.type)) {
                    set(target, tagged.name, tagged.type);
                }
            } else {
                set(target, bound.def.name, bound.def.type);
            }
        }
        if (flexible && fill == Fill.UNKNOWN_TAGS) {
            List<RawTaggedField> unknown = ((Message) target).unknownTaggedFields();
            unknown.add(new RawTaggedField(1000, new byte[] {1, 2, 3}));
            unknown.add(new RawTaggedField(70000, new byte[300]));
            unknown.add(new RawTaggedField(Integer.MAX_VALUE - 1, new byte[0]));
        }
    }

    void set(Object target, String name, Type type) throws Exception {
        Field field = field(target.getClass(), name);
        boolean keepDefault = fill == Fill.DEFAULTS || isRandom() && random.nextInt(5) == 0;
        if (keepDefault && (field.get(target) != null || type.isNullable())) {
            return;
        }
        boolean asNull = fill == Fill.NULLS || isRandom() && random.nextInt(4) == 0;
        if (asNull && type.isNullable()) {
            field.set(target, null);
        } else if (type.isArray()) {
            field.set(target, array(field, type.arrayElementType().get()));
        } else {
            field.set(target, value(field.getType(), type));
        }
    }

    @SuppressWarnings("unchecked")
    Collection<Object> array(Field field, Type elementType) throws Exception {
        Class<?> collection = field.getType();
        Class<?> element;
        Collection<Object> items;
        if (collection == List.class) {
            items = new ArrayList<>();
            var argument = ((ParameterizedType) field.getGenericType()).getActualTypeArguments()[0];
            element = (Class<?>) (argument instanceof ParameterizedType p ? p.getRawType() : argument);
        } else {
            items = (Collection<Object>) collection.getDeclaredConstructor().newInstance();
            var parent = (ParameterizedType) collection.getGenericSuperclass();
            element = (Class<?>) parent.getActualTypeArguments()[0];
        }
        int count = count(elementType instanceof Schema);
        for (int i = 0; i < count; i++) {
            items.add(value(element, elementType));
        }
        return items;
    }

    int count(boolean structures) {
        if (isRandom()) return random.nextInt(4);
        return switch (fill) {
            case LONG -> structures ? 3 : 200;
            case LOWEST -> 0;
            case HIGHEST -> 1;
            default -> 2;
        };
    }

    Object value(Class<?> type, Type wire) throws Exception {
        if (wire instanceof Schema schema) {
            var constructor = type.getDeclaredConstructor();
            Object nested = constructor.newInstance();
            fill(nested, schema);
            return nested;
        }
        if (type == boolean.class || type == Boolean.class) return isRandom() ? random.nextBoolean() : true;
        if (type == byte.class || type == Byte.class) return (byte) number(8);
        if (type == short.class || type == Short.class) return (short) number(16);
        if (wire == Type.UINT16) return (int) (number(17) & 0xffff);
        if (type == int.class || type == Integer.class) return (int) number(32);
        if (type == long.class || type == Long.class) return number(64);
        if (type == double.class) return fraction();
        if (type == String.class) return text();
        if (type == Uuid.class) return new Uuid(number(64), number(64) + 7);
        if (type == byte[].class) return bytes();
        if (type == ByteBuffer.class) return ByteBuffer.wrap(bytes());
        if (type.getSimpleName().equals("BaseRecords")) return records(type.getPackageName(), ByteBuffer.wrap(bytes()));
        throw new IllegalStateException("no value for " + type);
    }

    /** Kafka 4 moved its record classes to another package. */
    static Object records(String packageName, ByteBuffer content) throws Exception {
        Class<?> type = Class.forName(packageName + ".MemoryRecords");
        return type.getMethod("readableRecords", ByteBuffer.class).invoke(null, content);
    }

    long number(int bits) {
        long lowest = -1L << (bits - 1);
        if (isRandom()) return random.nextLong() >> (64 - bits) >> random.nextInt(bits);
        return switch (fill) {
            case LOWEST -> lowest;
            case HIGHEST -> ~lowest;
            default -> ++counter % 100 + 1;
        };
    }

    double fraction() {
        return switch (fill) {
            case LOWEST -> -Double.MAX_VALUE;
            case HIGHEST -> Double.MIN_VALUE;
            default -> random.nextGaussian();
        };
    }

    String text() {
        if (isRandom()) return UNICODE.substring(0, random.nextInt(10)).repeat(random.nextInt(20));
        return switch (fill) {
            case LOWEST -> "";
            case HIGHEST -> UNICODE;
            case LONG -> "x".repeat(126 + counter++ % 4);
            default -> "text" + ++counter;
        };
    }

    byte[] bytes() {
        int size = isRandom() ? random.nextInt(200) : fill == Fill.LOWEST ? 0 : fill == Fill.LONG ? 20000 : 5;
        byte[] content = new byte[size];
        random.nextBytes(content);
        return content;
    }

    boolean isRandom() {
        return fill.ordinal() >= Fill.RANDOM_1.ordinal();
    }

    // ---- reflection ----

    /** Kafka 3.9 has no accessor for these. */
    @SuppressWarnings("unchecked")
    static Collection<org.apache.kafka.common.protocol.types.Field> taggedFields(Type type) throws Exception {
        Field fields = TaggedFields.class.getDeclaredField("fields");
        fields.setAccessible(true);
        return ((Map<Integer, org.apache.kafka.common.protocol.types.Field>) fields.get(type)).values();
    }

    static boolean isData(Field field) {
        String name = field.getName();
        boolean plumbing = name.equals("_unknownTaggedFields") || name.equals("prev") || name.equals("next");
        return !Modifier.isStatic(field.getModifiers()) && !plumbing;
    }

    static Field field(Class<?> type, String snakeName) {
        for (Field field : type.getDeclaredFields()) {
            if (isData(field) && snakeCase(field.getName()).equals(snakeName)) {
                field.setAccessible(true);
                return field;
            }
        }
        throw new IllegalStateException(type + " has no field " + snakeName);
    }

    /** Kafka's own rule, applied to the schema's name: kRaftVersion is KRaftVersion there. */
    static String snakeCase(String name) {
        StringBuilder out = new StringBuilder();
        boolean afterCapital = true;
        String schemaName = Character.toUpperCase(name.charAt(0)) + name.substring(1);
        for (char c : schemaName.toCharArray()) {
            if (Character.isUpperCase(c) && !afterCapital) out.append('_');
            afterCapital = Character.isUpperCase(c);
            out.append(Character.toLowerCase(c));
        }
        return out.toString();
    }

    // ---- values as JSON: bytes, records and UUIDs as hex ----

    static void dump(Object value, StringBuilder json) throws Exception {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            json.append(value);
        } else if (value instanceof String text) {
            quote(text, json);
        } else if (value instanceof Uuid uuid) {
            json.append(String.format("\"%016x%016x\"", uuid.getMostSignificantBits(), uuid.getLeastSignificantBits()));
        } else if (value instanceof byte[] content) {
            quote(HEX.formatHex(content), json);
        } else if (value instanceof ByteBuffer buffer) {
            quote(HEX.formatHex(remaining(buffer)), json);
        } else if (value.getClass().getSimpleName().equals("MemoryRecords")) {
            dump(value.getClass().getMethod("buffer").invoke(value), json);
        } else if (value instanceof Collection<?> items) {
            dumpItems(items, json);
        } else {
            dumpFields(value, json);
        }
    }

    static byte[] remaining(ByteBuffer buffer) {
        byte[] content = new byte[buffer.remaining()];
        buffer.duplicate().get(content);
        return content;
    }

    static void dumpItems(Collection<?> items, StringBuilder json) throws Exception {
        String separator = "[";
        for (Object item : items) {
            json.append(separator);
            dump(item, json);
            separator = ",";
        }
        json.append(items.isEmpty() ? "[]" : "]");
    }

    static void dumpFields(Object message, StringBuilder json) throws Exception {
        String separator = "{";
        for (Field field : message.getClass().getDeclaredFields()) {
            if (isData(field)) {
                field.setAccessible(true);
                json.append(separator).append('"').append(snakeCase(field.getName())).append("\":");
                dump(field.get(message), json);
                separator = ",";
            }
        }
        json.append(separator.equals("{") ? "{}" : "}");
    }

    static void quote(String text, StringBuilder json) {
        json.append('"');
        for (char c : text.toCharArray()) {
            if (c < ' ' || c > '~' || c == '"' || c == '\\') {
                json.append(String.format("\\u%04x", (int) c));
            } else {
                json.append(c);
            }
        }
        json.append('"');
    }
}

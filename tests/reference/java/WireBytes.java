// Kafka's generated message classes as a filter, one answer line for each line of input:
//
//   bytes <class> <version read> <version written> <hex>   ->  hex | refused <exception>
//   defaults <class>                                       ->  path=value TAB path=value ...
//   metadata <hex>                                         ->  hex, through the frame of metadata records
//   api <key>                                              ->  lowest highest, then request:response header per version
//   errors                                                 ->  NAME=code=retriable TAB ...
//
// "Refused" means that the message cannot be said in the version to be written.

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

import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

public class WireBytes {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            String answer;
            try {
                answer = switch (words[0]) {
                    case "bytes" -> rewritten(words);
                    case "defaults" -> defaults(Class.forName(words[1]));
                    case "metadata" -> framed(words[1]);
                    case "api" -> api(Short.parseShort(words[1]));
                    case "errors" -> errors();
                    default -> "failed unknown command";
                };
            } catch (Throwable error) {
                answer = "failed " + error.toString().replace('\n', ' ');
            }
            out.println(answer);
        }
        out.flush();
    }

    private static String rewritten(String[] words) throws Exception {
        Message message = (Message) Class.forName(words[1]).getDeclaredConstructor().newInstance();
        ByteBuffer buffer = ByteBuffer.wrap(HexFormat.of().parseHex(words[4]));
        message.read(new ByteBufferAccessor(buffer), Short.parseShort(words[2]));
        if (buffer.hasRemaining()) {
            return "failed " + buffer.remaining() + " bytes left over";
        }
        ByteBuffer written;
        try {
            written = MessageUtil.toByteBufferAccessor(message, Short.parseShort(words[3])).buffer();
        } catch (UnsupportedVersionException | NullPointerException error) {
            return "refused " + error.getClass().getSimpleName();
        }
        return hex(written);
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private static String framed(String hex) {
        MetadataRecordSerde serde = MetadataRecordSerde.INSTANCE;
        ByteBuffer buffer = ByteBuffer.wrap(HexFormat.of().parseHex(hex));
        ApiMessageAndVersion record = serde.read(new ByteBufferAccessor(buffer), buffer.remaining());
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer written = ByteBuffer.allocate(serde.recordSize(record, cache));
        serde.write(record, cache, new ByteBufferAccessor(written));
        written.flip();
        return hex(written);
    }

    private static String api(short key) {
        ApiMessageType type = ApiMessageType.fromApiKey(key);
        StringBuilder text = new StringBuilder();
        text.append(type.lowestSupportedVersion()).append(' ').append(type.highestSupportedVersion(true));
        for (short version = type.lowestSupportedVersion(); version <= type.highestSupportedVersion(true); version++) {
            text.append(' ').append(type.requestHeaderVersion(version));
            text.append(':').append(type.responseHeaderVersion(version));
        }
        return text.toString();
    }

    private static String errors() {
        List<String> lines = new ArrayList<>();
        for (Errors error : Errors.values()) {
            boolean retriable = error.exception() instanceof RetriableException;
            lines.add(error.name() + "=" + error.code() + "=" + retriable);
        }
        return String.join("\t", lines);
    }

    private static String defaults(Class<?> type) throws Exception {
        List<String> lines = new ArrayList<>();
        collect(type, "", lines);
        return String.join("\t", lines);
    }

    private static void collect(Class<?> type, String path, List<String> lines) throws Exception {
        Object instance = type.getDeclaredConstructor().newInstance();
        for (Field field : type.getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers()) || field.getName().equals("_unknownTaggedFields")) {
                continue;
            }
            if (field.getName().equals("next") || field.getName().equals("prev")) {
                if (field.getType() == int.class) {
                    continue; // the links of an implicit linked list, not fields of the message
                }
            }
            field.setAccessible(true);
            Object value = field.get(instance);
            String name = path + field.getName();
            lines.add(name + "=" + shown(value));
            Class<?> inner = structOf(field);
            if (inner != null) {
                collect(inner, name + ".", lines);
            }
        }
    }

    private static Class<?> structOf(Field field) throws Exception {
        Class<?> type = field.getType();
        if (Message.class.isAssignableFrom(type)) {
            return type;
        }
        if (field.getGenericType() instanceof ParameterizedType parameters) {
            Class<?> element = (Class<?>) parameters.getActualTypeArguments()[0];
            return Message.class.isAssignableFrom(element) ? element : null;
        }
        if (Collection.class.isAssignableFrom(type)) {
            return Class.forName(type.getName().substring(0, type.getName().length() - "Collection".length()));
        }
        return null;
    }

    private static String shown(Object value) {
        if (value == null) {
            return "null";
        }
        if (value instanceof Message) {
            return "struct";
        }
        if (value instanceof Collection<?> items) {
            return items.isEmpty() ? "[]" : "not empty";
        }
        if (value instanceof byte[] bytes) {
            return "hex:" + HexFormat.of().formatHex(bytes);
        }
        if (value instanceof ByteBuffer buffer) {
            return "hex:" + HexFormat.of().formatHex(buffer.array(), 0, buffer.remaining());
        }
        return value instanceof String text ? "'" + text + "'" : value.toString();
    }
}

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Date;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.ConverterType;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Prints the answers of Kafka's own converters, transforms and predicates. Each line of the file is a question in
 * JSON, each line of the output its answer; see tests/spark/connect_answers.py for both.
 */
public final class ConnectAnswers {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonNodeFactory NODES = JsonNodeFactory.withExactBigDecimals(true);

    private ConnectAnswers() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            JsonNode answer;
            try {
                answer = answerTo(JSON.readTree(line));
            } catch (Exception error) {
                ObjectNode failure = NODES.objectNode();
                failure.put("error", error.getClass().getName());
                failure.put("message", error.getMessage());
                answer = failure;
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }

    private static JsonNode answerTo(JsonNode question) throws Exception {
        String asked = question.get("ask").asText();
        String topic = question.path("topic").asText("topic");
        Object subject = Class.forName(question.get("class").asText()).getDeclaredConstructor().newInstance();
        Map<String, String> config = new HashMap<>();
        question.path("config").fields().forEachRemaining(each -> config.put(each.getKey(), each.getValue().asText()));
        switch (asked) {
            case "to": {
                Converter converter = (Converter) subject;
                converter.configure(config, question.path("key").asBoolean());
                return described(converter.toConnectData(topic, bytes(question.get("data"))));
            }
            case "from": {
                Converter converter = (Converter) subject;
                converter.configure(config, question.path("key").asBoolean());
                SchemaAndValue given = datum(topic, question.get("data"));
                return hex(converter.fromConnectData(topic, given.schema(), given.value()));
            }
            case "header-to": {
                HeaderConverter converter = headerConverter(subject, config);
                return described(converter.toConnectHeader(topic, "name", bytes(question.get("data"))));
            }
            case "header-from": {
                HeaderConverter converter = headerConverter(subject, config);
                SchemaAndValue given = datum(topic, question.get("data"));
                return hex(converter.fromConnectHeader(topic, "name", given.schema(), given.value()));
            }
            case "predicate": {
                @SuppressWarnings("unchecked")
                Predicate<SinkRecord> predicate = (Predicate<SinkRecord>) subject;
                predicate.configure(config);
                return NODES.booleanNode(predicate.test(record(question.get("record"))));
            }
            default: {
                @SuppressWarnings("unchecked")
                Transformation<SinkRecord> transform = (Transformation<SinkRecord>) subject;
                transform.configure(config);
                SinkRecord changed = transform.apply(record(question.get("record")));
                return changed == null ? NODES.nullNode() : described(changed);
            }
        }
    }

    private static HeaderConverter headerConverter(Object subject, Map<String, String> config) {
        HeaderConverter converter = (HeaderConverter) subject;
        config.put("converter.type", ConverterType.HEADER.getName());
        converter.configure(config);
        return converter;
    }

    private static SinkRecord record(JsonNode given) {
        String topic = given.path("topic").asText("topic");
        SchemaAndValue key = datum(topic, given.get("key"));
        SchemaAndValue value = datum(topic, given.get("value"));
        ConnectHeaders headers = new ConnectHeaders();
        HeaderConverter converter = new SimpleHeaderConverter();
        converter.configure(Map.of());
        for (JsonNode each : given.path("headers")) {
            byte[] content = each.get(1).isNull() ? null : each.get(1).asText().getBytes(StandardCharsets.UTF_8);
            headers.add(each.get(0).asText(), converter.toConnectHeader(topic, each.get(0).asText(), content));
        }
        JsonNode timestamp = given.get("timestamp");
        Long time = timestamp == null || timestamp.isNull() ? null : timestamp.asLong();
        return new SinkRecord(topic, given.path("partition").asInt(0), key.schema(), key.value(), value.schema(),
            value.value(), given.path("offset").asLong(0), time, TimestampType.CREATE_TIME, headers);
    }

    /** Null, or {"text": JSON} without a schema, or {"envelope": JSON} with one. */
    private static SchemaAndValue datum(String topic, JsonNode given) {
        if (given == null || given.isNull()) {
            return SchemaAndValue.NULL;
        }
        boolean typed = given.has("envelope");
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", String.valueOf(typed), "replace.null.with.default", "false"), false);
        String text = given.get(typed ? "envelope" : "text").asText();
        return converter.toConnectData(topic, text.getBytes(StandardCharsets.UTF_8));
    }

    private static byte[] bytes(JsonNode hex) {
        return hex == null || hex.isNull() ? null : HexFormat.of().parseHex(hex.asText());
    }

    private static JsonNode hex(byte[] content) {
        ObjectNode answer = NODES.objectNode();
        answer.put("data", content == null ? null : HexFormat.of().formatHex(content));
        return answer;
    }

    private static ObjectNode described(SinkRecord changed) {
        ObjectNode answer = NODES.objectNode();
        answer.put("topic", changed.topic());
        answer.put("timestamp", changed.timestamp());
        answer.set("key", described(new SchemaAndValue(changed.keySchema(), changed.key())));
        answer.set("value", described(new SchemaAndValue(changed.valueSchema(), changed.value())));
        ArrayNode headers = answer.putArray("headers");
        for (Header each : changed.headers()) {
            headers.addArray().add(each.key()).add(described(new SchemaAndValue(each.schema(), each.value())));
        }
        return answer;
    }

    private static ObjectNode described(SchemaAndValue given) {
        ObjectNode answer = NODES.objectNode();
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", "true"), false);
        answer.set("schema", given.schema() == null ? NODES.nullNode() : converter.asJsonSchema(given.schema()));
        answer.set("value", value(given.value()));
        return answer;
    }

    /** JSON; values that JSON can't express are an object with one member that begins with "$". */
    private static JsonNode value(Object given) {
        if (given instanceof byte[] content) {
            return said("$bytes", NODES.textNode(HexFormat.of().formatHex(content)));
        } else if (given instanceof ByteBuffer buffer) {
            byte[] content = new byte[buffer.remaining()];
            buffer.duplicate().get(content);
            return value(content);
        } else if (given instanceof BigDecimal decimal) {
            return said("$decimal", NODES.textNode(decimal.toPlainString()));
        } else if (given instanceof Date date) {
            return said("$date", NODES.numberNode(date.getTime()));
        } else if (given instanceof Float || given instanceof Double) {
            return said(given instanceof Float ? "$float" : "$double", NODES.textNode(given.toString()));
        } else if (given instanceof List<?> list) {
            ArrayNode items = NODES.arrayNode();
            list.forEach(each -> items.add(value(each)));
            return items;
        } else if (given instanceof Map<?, ?> map) {
            ObjectNode members = NODES.objectNode();
            Map<String, JsonNode> sorted = new TreeMap<>();
            map.forEach((name, content) -> sorted.put(String.valueOf(name), value(content)));
            sorted.forEach(members::set);
            return members;
        } else if (given instanceof Struct struct) {
            ObjectNode members = NODES.objectNode();
            for (Field each : struct.schema().fields()) {
                members.set(each.name(), value(struct.getWithoutDefault(each.name())));
            }
            return members;
        }
        return JSON.valueToTree(given);
    }

    private static ObjectNode said(String kind, JsonNode content) {
        ObjectNode node = NODES.objectNode();
        node.set(kind, content);
        return node;
    }
}

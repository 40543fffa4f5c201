import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Utils;

/**
 * Kafka's own assignors. Standard input has a task a line, a group as JSON:
 * {"assignor": name, "topics": {topic: [[rack, ...] of each partition]},
 *  "members": [{"id", "instance", "metadata": hex of its subscription}]}.
 * Each is answered by the partitions of each member, or by "error". Subscriptions are read by
 * Java from their bytes. A task with "member" instead asks how Java would write the subscription
 * of that member, and its assignment.
 */
public class AssignorOracle {
    static final HexFormat HEX = HexFormat.of();
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode task = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            try {
                if (task.has("member")) {
                    write(task, answer);
                } else {
                    assign(task, answer);
                }
            } catch (RuntimeException failed) {
                answer.removeAll();
                answer.put("error", failed.toString());
            }
            out.println(JSON.writeValueAsString(answer));
        }
        out.flush();
    }

    static ConsumerPartitionAssignor assignor(JsonNode task) {
        return switch (task.get("assignor").asText()) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
    }

    // --- assignments ---------------------------------------------------------------------

    static void assign(JsonNode task, ObjectNode answer) {
        Map<String, Subscription> members = new HashMap<>();  // as in ConsumerCoordinator
        for (JsonNode member : task.get("members")) {
            byte[] metadata = HEX.parseHex(member.get("metadata").asText());
            Subscription subscription = ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(metadata));
            subscription.setGroupInstanceId(Optional.ofNullable(member.get("instance").textValue()));
            members.put(member.get("id").asText(), subscription);
        }
        assignor(task).assign(cluster(task.get("topics")), new GroupSubscription(members)).groupAssignment()
            .forEach((id, given) -> answer.set(id, partitions(given.partitions())));
    }

    static Cluster cluster(JsonNode topics) {
        List<PartitionInfo> partitions = new ArrayList<>();
        Set<Node> nodes = new HashSet<>();
        topics.fields().forEachRemaining(topic -> {
            for (int number = 0; number < topic.getValue().size(); number++) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : topic.getValue().get(number)) {
                    replicas.add(new Node(nodes.size() + 1, "localhost", 1, rack.textValue()));
                    nodes.addAll(replicas);
                }
                Node[] array = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), number, array.length > 0 ? array[0] : null, array, array));
            }
        });
        return new Cluster("cluster", nodes, partitions, Collections.emptySet(), Collections.emptySet());
    }

    static ArrayNode partitions(List<TopicPartition> given) {
        ArrayNode list = JSON.createArrayNode();
        given.forEach(each -> list.addArray().add(each.topic()).add(each.partition()));
        return list;
    }

    // --- bytes ---------------------------------------------------------------------------

    static void write(JsonNode task, ObjectNode answer) {
        JsonNode member = task.get("member");
        List<TopicPartition> previous = partitions(member.get("previous"));
        int generation = member.get("generation").asInt();
        ConsumerPartitionAssignor assignor = assignor(task);
        if (previous != null) {
            ConsumerGroupMetadata group = new ConsumerGroupMetadata("group", generation, "member", Optional.empty());
            assignor.onAssignment(new Assignment(previous), group);
        }
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText()));
        ByteBuffer userData = assignor.subscriptionUserData(new HashSet<>(topics));
        Subscription subscription = new Subscription(
            topics, userData, partitions(member.get("owned")), generation, Optional.ofNullable(member.get("rack").textValue()));
        answer.put("user_data", userData == null ? null : HEX.formatHex(Utils.toArray(userData)));
        answer.put("subscription", HEX.formatHex(Utils.toArray(ConsumerProtocol.serializeSubscription(subscription))));
        Assignment assignment = new Assignment(partitions(member.get("owned")));
        answer.put("assignment", HEX.formatHex(Utils.toArray(ConsumerProtocol.serializeAssignment(assignment))));
    }

    static List<TopicPartition> partitions(JsonNode pairs) {
        if (pairs.isNull()) {
            return null;
        }
        List<TopicPartition> list = new ArrayList<>();
        pairs.forEach(pair -> list.add(new TopicPartition(pair.get(0).asText(), pair.get(1).asInt())));
        return list;
    }
}

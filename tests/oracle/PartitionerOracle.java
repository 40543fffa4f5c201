import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.Utils;

/**
 * Kafka's own choice of a partition by key. Standard input has a key in hex and a number of
 * partitions a line; each is answered by the key's hash and its partition.
 */
public class PartitionerOracle {
    public static void main(String[] args) throws Exception {
        StringBuilder out = new StringBuilder();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            byte[] key = HexFormat.of().parseHex(words[0]);
            int partition = BuiltInPartitioner.partitionForKey(key, Integer.parseInt(words[1]));
            out.append(Utils.murmur2(key)).append(' ').append(partition).append('\n');
        }
        System.out.print(out);
    }
}

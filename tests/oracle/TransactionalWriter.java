// Writes to a topic in transactions. Arguments: servers, topic. Each line of stdin is a
// transaction: "commit" or "abort", and the values, by spaces.

import java.util.Map;
import java.util.Scanner;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

public class TransactionalWriter {
    public static void main(String[] arguments) {
        Map<String, Object> options =
                Map.of("bootstrap.servers", arguments[0], "transactional.id", arguments[1]);
        StringSerializer text = new StringSerializer();
        try (var producer = new KafkaProducer<String, String>(options, text, text);
                Scanner lines = new Scanner(System.in)) {
            producer.initTransactions();
            while (lines.hasNextLine()) {
                String[] words = lines.nextLine().split(" ");
                producer.beginTransaction();
                for (int i = 1; i < words.length; i++) {
                    producer.send(new ProducerRecord<>(arguments[1], 0, null, words[i]));
                }
                producer.flush();
                if (words[0].equals("commit")) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
    }
}

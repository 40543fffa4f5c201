import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Properties;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;

/**
 * The names of every option of Java's clients, and what Java reads in properties files.
 * Standard input has a file's text in base64 a line; each pair in it is answered by the
 * line's number, the name and the value, both in base64 behind an equals sign.
 */
public class OptionsOracle {
    public static void main(String[] args) throws Exception {
        ProducerConfig.configNames().forEach(name -> System.out.println("producer " + name));
        ConsumerConfig.configNames().forEach(name -> System.out.println("consumer " + name));
        AdminClientConfig.configNames().forEach(name -> System.out.println("admin " + name));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        int number = 0;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            byte[] text = Base64.getDecoder().decode(line);
            Properties found = new Properties();
            found.load(new StringReader(new String(text, StandardCharsets.UTF_8)));
            for (String name : found.stringPropertyNames()) {
                String value = found.getProperty(name);
                System.out.println(number + " " + encoded(name) + " " + encoded(value));
            }
            number++;
        }
    }

    private static String encoded(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        return "=" + Base64.getEncoder().encodeToString(bytes);
    }
}

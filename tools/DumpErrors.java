import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** Prints each error code of the client jar: code, name, retriable, stale metadata. */
public class DumpErrors {
    public static void main(String[] args) {
        for (Errors error : Errors.values()) {
            boolean retriable = error.exception() instanceof RetriableException;
            boolean stale = error.exception() instanceof InvalidMetadataException;
            System.out.println(error.code() + " " + error.name() + " " + retriable + " " + stale);
        }
    }
}

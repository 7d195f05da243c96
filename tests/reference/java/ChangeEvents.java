import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.Properties;

/** Debezium without a broker: one line an event, with the topic, the key and the value, until stdin ends. */
public final class ChangeEvents {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileReader reader = new FileReader(arguments[0])) {
            properties.load(reader);
        }
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
            .using(properties)
            .notifying((List<ChangeEvent<String, String>> events,
                        DebeziumEngine.RecordCommitter<ChangeEvent<String, String>> committer) -> {
                for (ChangeEvent<String, String> event : events) {
                    out.println(event.destination() + " " + encode(event.key()) + " " + encode(event.value()));
                    committer.markProcessed(event);
                }
                out.flush();
                committer.markBatchFinished();
            })
            .using((success, message, error) -> {
                System.err.println("engine ended: " + message);
                for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                    System.err.println("because of " + cause);
                }
            })
            .build();
        Thread thread = new Thread(engine);
        thread.start();
        while (System.in.read() >= 0) { }
        if (thread.isAlive()) {
            engine.close();
        }
        System.exit(0);
    }

    private static String encode(String text) {
        return text == null ? "-" : Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}

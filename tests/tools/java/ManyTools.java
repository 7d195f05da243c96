import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.utils.Exit;

/** Runs one of Kafka's tools after another in this process: to start Java for each costs a second.
 *
 * In: main class, number of arguments, arguments, stdin. Out: exit code, stdout, stderr. A tool that asks to exit is
 * parked for ever. One that ends the process itself has its output sent by the shutdown hook, with code -1.
 */
public class ManyTools {
    static final DataInputStream in = new DataInputStream(System.in);
    static final DataOutputStream out = new DataOutputStream(System.out);
    static ByteArrayOutputStream stdout;
    static ByteArrayOutputStream stderr;

    public static void main(String[] none) throws Exception {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> answer(-1)));
        while (true) {
            String mainClass = text();
            if (mainClass == null) {
                Runtime.getRuntime().halt(0);
            }
            String[] arguments = new String[in.readInt()];
            for (int i = 0; i < arguments.length; i++) {
                arguments[i] = text();
            }
            System.setIn(new ByteArrayInputStream(text().getBytes(StandardCharsets.UTF_8)));
            synchronized (ManyTools.class) {
                stdout = new ByteArrayOutputStream();
                stderr = new ByteArrayOutputStream();
            }
            System.setOut(new PrintStream(stdout, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(stderr, true, StandardCharsets.UTF_8));
            answer(run(mainClass, arguments));
        }
    }

    static int run(String mainClass, String[] arguments) throws Exception {
        CompletableFuture<Integer> code = new CompletableFuture<>();
        Exit.Procedure exit = (status, message) -> {
            code.complete(status);
            while (true) {
                LockSupport.park();
            }
        };
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        Thread thread = new Thread(() -> {
            try {
                Class.forName(mainClass).getMethod("main", String[].class).invoke(null, (Object) arguments);
                code.complete(0);
            } catch (InvocationTargetException thrown) {
                System.err.print("Exception in thread \"main\" ");
                thrown.getCause().printStackTrace();
                code.complete(1);
            } catch (ReflectiveOperationException absent) {
                System.err.println("Error: Could not find or load main class " + mainClass);
                code.complete(1);
            }
        });
        thread.setDaemon(true);
        thread.start();
        return code.get();
    }

    static synchronized void answer(int code) {
        if (stdout == null) {
            return;
        }
        try {
            out.writeInt(code);
            for (ByteArrayOutputStream stream : new ByteArrayOutputStream[] {stdout, stderr}) {
                byte[] bytes = stream.toByteArray();
                out.writeInt(bytes.length);
                out.write(bytes);
            }
            out.flush();
        } catch (IOException gone) {
            Runtime.getRuntime().halt(1);
        }
        stdout = null;
    }

    static String text() throws IOException {
        int size;
        try {
            size = in.readInt();
        } catch (IOException end) {
            return null;
        }
        return new String(in.readNBytes(size), StandardCharsets.UTF_8);
    }
}

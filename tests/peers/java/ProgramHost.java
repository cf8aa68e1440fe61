import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.Closeable;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import javax.tools.ToolProvider;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs programs of Kafka, its tools and its nodes, in one process, each as if it had a process of its own: a warm JVM
 * needs a tenth of the time. The process ends with its standard input.
 *
 * <p>A line of standard input is a request in JSON: {@code {"id", "main", "arguments", "properties", "stdin", "out",
 * "err"}} starts a program. The last three are paths, and {@code main} is a class or the path of a source file with one.
 * The properties are lists of the whole process, to which a program adds its values.
 * {@code {"stop"}} with an id does what SIGTERM does. Each program that has ended is a line {@code {"id", "status"}} of
 * standard output.
 *
 * <p>The threads of a program are those of its thread group, which inherit it from each other. By the group this class
 * finds the streams of a program, and the program that ends: Kafka's {@code Exit} throws, so the rest of the program
 * unwinds, and what it still prints is dropped. The streams are replaced before Kafka's classes could keep the original
 * ones.
 */
@SuppressWarnings("deprecation") // Of ThreadGroup, whose parts used here remain.
public class ProgramHost {
    private static final int TERMINATED = 143;
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Program> PROGRAMS = new ConcurrentHashMap<>();
    private static final Map<String, Class<?>> COMPILED = new ConcurrentHashMap<>();
    private static final PrintStream ANSWERS = System.out;

    private static final class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    private static final class Program extends ThreadGroup {
        final String id;
        final InputStream in;
        final OutputStream out;
        final OutputStream err;
        private final List<Runnable> hooks = new ArrayList<>();
        private boolean stops;
        private boolean ended;

        Program(String id, InputStream in, OutputStream out, OutputStream err) {
            super("program-" + id);
            this.id = id;
            this.in = in;
            this.out = out;
            this.err = err;
        }

        synchronized void add(Runnable hook) {
            hooks.add(hook);
        }

        synchronized boolean hasEnded() {
            return ended;
        }

        /** The first call decides the status. A program that is being stopped ends only when its hooks have run. */
        synchronized void end(int status, boolean isFinal) {
            if (ended || (stops && !isFinal)) {
                return;
            }
            ended = true;
            for (Closeable stream : List.of(in, out, err)) {
                try {
                    stream.close();
                } catch (IOException failed) {
                    failed.printStackTrace();
                }
            }
            PROGRAMS.remove(id);
            answer(JSON.createObjectNode().put("id", id).put("status", status));
        }

        void runHooks() {
            List<Thread> threads = new ArrayList<>();
            synchronized (this) {
                hooks.forEach(hook -> threads.add(started(this, "hook", hook)));
                hooks.clear();
            }
            for (Thread thread : threads) {
                try {
                    thread.join();
                } catch (InterruptedException interrupted) {
                    Thread.currentThread().interrupt();
                }
            }
        }

        void stopInOrder() {
            synchronized (this) {
                stops = true;
            }
            runHooks();
            end(TERMINATED, true);
        }

        @Override
        public void uncaughtException(Thread thread, Throwable error) {
            if (!(error instanceof Ended)) {
                System.err.print("Exception in thread \"" + thread.getName() + "\" ");
                error.printStackTrace();
            }
        }
    }

    /** What a thread prints goes to the file of its program, or, after the program's end, nowhere. */
    private static final class Routed extends OutputStream {
        private final boolean isOut;
        private final OutputStream otherwise;

        Routed(boolean isOut, OutputStream otherwise) {
            this.isOut = isOut;
            this.otherwise = otherwise;
        }

        @Override
        public void write(int octet) throws IOException {
            write(new byte[] {(byte) octet}, 0, 1);
        }

        @Override
        public void write(byte[] data, int from, int length) throws IOException {
            Program program = current();
            if (program == null) {
                otherwise.write(data, from, length);
            } else if (!program.hasEnded()) {
                (isOut ? program.out : program.err).write(data, from, length);
            }
        }
    }

    private static final class RoutedInput extends InputStream {
        @Override
        public int read() throws IOException {
            Program program = current();
            return program == null ? -1 : program.in.read();
        }

        @Override
        public int read(byte[] data, int from, int length) throws IOException {
            Program program = current();
            return program == null ? -1 : program.in.read(data, from, length);
        }

        @Override
        public int available() throws IOException {
            Program program = current();
            return program == null ? 0 : program.in.available();
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream log = System.err;
        System.setIn(new RoutedInput());
        System.setOut(new PrintStream(new Routed(true, log), true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(new Routed(false, log), true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((status, message) -> {
            Program program = current();
            if (program != null) {
                program.runHooks();
                program.end(status, false);
            }
            throw new Ended();
        });
        Exit.setHaltProcedure((status, message) -> {
            Program program = current();
            if (program != null) {
                program.end(status, true);
            }
            throw new Ended();
        });
        Exit.setShutdownHookAdder((name, hook) -> {
            Program program = current();
            if (program != null) {
                program.add(hook);
            }
        });
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            handle(JSON.readTree(line));
        }
        Runtime.getRuntime().halt(0);
    }

    private static void handle(JsonNode request) throws IOException {
        if (request.has("stop")) {
            Program program = PROGRAMS.get(request.get("stop").asText());
            if (program != null) {
                started(program, "stop", program::stopInOrder);
            }
            return;
        }
        request.get("properties").fields().forEachRemaining(
            entry -> System.getProperties().merge(
                entry.getKey(), entry.getValue().asText(), (others, own) -> others + "," + own));
        List<String> arguments = new ArrayList<>();
        request.get("arguments").forEach(argument -> arguments.add(argument.asText()));
        Program program = new Program(
            request.get("id").asText(),
            new FileInputStream(request.get("stdin").asText()),
            new FileOutputStream(request.get("out").asText(), true),
            new FileOutputStream(request.get("err").asText(), true));
        PROGRAMS.put(program.id, program);
        String main = request.get("main").asText();
        started(program, "main", () -> run(program, main, arguments.toArray(new String[0])));
    }

    private static void run(Program program, String main, String[] arguments) {
        try {
            Method method = (main.endsWith(".java") ? compiled(main) : Class.forName(main))
                .getMethod("main", String[].class);
            method.setAccessible(true);
            method.invoke(null, (Object) arguments);
            program.runHooks();
            program.end(0, false);
        } catch (InvocationTargetException thrown) {
            fail(program, thrown.getCause());
        } catch (Throwable error) {
            fail(program, error);
        }
    }

    private static void fail(Program program, Throwable error) {
        program.uncaughtException(Thread.currentThread(), error);
        program.runHooks();
        program.end(1, false);
    }

    private static synchronized Class<?> compiled(String source) throws Exception {
        Class<?> known = COMPILED.get(source);
        if (known != null) {
            return known;
        }
        Path classes = Files.createTempDirectory("program-host");
        String[] options = {
            "-proc:none", "-nowarn", "-cp", System.getProperty("java.class.path"), "-d", classes.toString(), source};
        if (ToolProvider.getSystemJavaCompiler().run(null, System.out, System.err, options) != 0) {
            throw new IllegalArgumentException(source + " was not compiled");
        }
        String name = Path.of(source).getFileName().toString().replace(".java", "");
        Class<?> made = new URLClassLoader(new URL[] {classes.toUri().toURL()}).loadClass(name);
        COMPILED.put(source, made);
        return made;
    }

    private static Thread started(Program program, String name, Runnable run) {
        Thread thread = new Thread(program, run, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private static Program current() {
        ThreadGroup group = Thread.currentThread().getThreadGroup();
        while (group != null && !(group instanceof Program)) {
            group = group.getParent();
        }
        return (Program) group;
    }

    private static void answer(JsonNode line) {
        synchronized (ANSWERS) {
            ANSWERS.println(line);
            ANSWERS.flush();
        }
    }
}

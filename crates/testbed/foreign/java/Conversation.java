import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.StringJoiner;

/** The line conversation that every foreign client has with its driver: see crates/testbed/src/foreign. */
final class Conversation {
    private static final long CYCLE_LEASE_MS = 10_000;

    /** One client's locks; everything is asked on one thread. */
    interface Locks {
        boolean acquire(String name, long waitMs, long leaseMs) throws Exception;

        /** Whether the lock was still ours. */
        boolean release(String name) throws Exception;
    }

    private final Locks locks;
    private final Deque<String> held = new ArrayDeque<>();

    private Conversation(Locks locks) {
        this.locks = locks;
    }

    /** Answers the driver until it leaves; then the process ends, whatever threads still run. */
    static void run(Locks locks) throws Exception {
        Conversation conversation = new Conversation(locks);
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            if (line.equals("exit")) {
                break;
            }
            System.out.println(conversation.answerOrError(line.split(" ")));
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private String answerOrError(String[] words) {
        try {
            return answer(words);
        } catch (Exception problem) {
            problem.printStackTrace();
            return "error " + problem.toString().replaceAll("\\s+", " ");
        }
    }

    private String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "acquire":
                if (!locks.acquire(words[1], Long.parseLong(words[2]), Long.parseLong(words[3]))) {
                    return "busy";
                }
                held.push(words[1]);
                return "got";
            case "release":
                return locks.release(held.pop()) ? "released" : "not-mine";
            case "cycles":
                return cycles(Long.parseLong(words[1]), words[2]);
            default:
                throw new IllegalArgumentException("no such command: " + words[0]);
        }
    }

    /** Acquires and releases for some time; gives the nanoseconds of each cycle. */
    private String cycles(long milliseconds, String name) throws Exception {
        StringJoiner took = new StringJoiner(" ", "cycles ", "");
        long now = System.nanoTime();
        long end = now + milliseconds * 1_000_000;
        while (now < end) {
            if (!locks.acquire(name, 60_000, CYCLE_LEASE_MS)) {
                throw new IllegalStateException("not obtained within a minute");
            }
            locks.release(name);
            long before = now;
            now = System.nanoTime();
            took.add(Long.toString(now - before));
        }
        return took.toString();
    }
}

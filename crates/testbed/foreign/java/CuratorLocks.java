import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's InterProcessMutex. Arguments: HOST:PORT[,HOST:PORT...] PREFIX. */
public final class CuratorLocks implements Conversation.Locks {
    private final String addresses;
    private final String prefix;
    private final Map<String, InterProcessMutex> mutexes = new HashMap<>();
    private CuratorFramework client;

    private CuratorLocks(String addresses, String prefix) {
        this.addresses = addresses;
        this.prefix = prefix;
    }

    public static void main(String[] arguments) throws Exception {
        Conversation.run(new CuratorLocks(arguments[0], arguments[1]));
    }

    @Override
    public boolean acquire(String name, long waitMs, long leaseMs) throws Exception {
        // The first acquire's lease is the session's timeout.
        if (client == null) {
            client = CuratorFrameworkFactory.newClient(
                    addresses, (int) leaseMs, 15_000, new ExponentialBackoffRetry(100, 3));
            client.start();
            client.blockUntilConnected();
        }
        InterProcessMutex mutex =
                mutexes.computeIfAbsent(name, any -> new InterProcessMutex(client, prefix + name));
        return mutex.acquire(waitMs, TimeUnit.MILLISECONDS);
    }

    @Override
    public boolean release(String name) throws Exception {
        InterProcessMutex mutex = mutexes.get(name);
        try {
            mutex.release();
            return true;
        } catch (IllegalMonitorStateException notOurs) {
            return false;
        }
    }
}

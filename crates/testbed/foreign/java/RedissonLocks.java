import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson's RLock. Arguments: HOST:PORT. A lease of 0 asks for Redisson's own watchdog. */
public final class RedissonLocks implements Conversation.Locks {
    private final RedissonClient client;

    private RedissonLocks(String address) {
        Config config = new Config();
        config.useSingleServer()
                .setAddress("redis://" + address)
                .setConnectionMinimumIdleSize(1)
                .setConnectionPoolSize(4);
        client = Redisson.create(config);
    }

    public static void main(String[] arguments) throws Exception {
        Conversation.run(new RedissonLocks(arguments[0]));
    }

    @Override
    public boolean acquire(String name, long waitMs, long leaseMs) throws Exception {
        long lease = leaseMs == 0 ? -1 : leaseMs;
        return client.getLock(name).tryLock(waitMs, lease, TimeUnit.MILLISECONDS);
    }

    @Override
    public boolean release(String name) {
        try {
            client.getLock(name).unlock();
            return true;
        } catch (IllegalMonitorStateException notOurs) {
            return false;
        }
    }
}

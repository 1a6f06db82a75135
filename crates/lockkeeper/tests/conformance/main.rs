//! Every law on every backend: one line each. Wrappers run them too.

mod on;

use on::wrapped::{AppliedTwice, Around, Deaf, LostReplies, Plain};

lockkeeper::conformance!(memory, on::memory::MemoryEngine);
lockkeeper::conformance!(local, on::local::LocalEngine);
lockkeeper::conformance!(redis, on::redis::RedisEngine<on::redis::Alone>);
lockkeeper::conformance!(redis_sentinel, on::redis::RedisEngine<on::redis::Watched>);
lockkeeper::conformance!(redis_cluster, on::redis::RedisEngine<on::redis::Sharing>);
lockkeeper::conformance!(
    redis_simple,
    on::dialects::DialectEngine<on::dialects::Simple>
);
lockkeeper::conformance!(
    redis_redisson,
    on::dialects::DialectEngine<on::dialects::Redisson>
);
lockkeeper::conformance!(redlock, on::redlock::RedlockEngine);
lockkeeper::conformance!(etcd, on::etcd::One);
lockkeeper::conformance!(etcd_three, on::etcd::Three);
lockkeeper::conformance!(zookeeper, on::zookeeper::One);
lockkeeper::conformance!(zookeeper_three, on::zookeeper::Three);
lockkeeper::conformance!(mysql, on::mysql::Lease);
lockkeeper::conformance!(mysql_session, on::mysql::Session);
lockkeeper::conformance!(postgres, on::postgres::Lease);
lockkeeper::conformance!(postgres_session, on::postgres::Session);
lockkeeper::conformance!(lost_replies_over_memory, Around<LostReplies>);
lockkeeper::conformance!(applied_twice_over_memory, Around<AppliedTwice>);
lockkeeper::conformance!(deaf_over_memory, Around<Deaf>);
lockkeeper::conformance!(plain_over_memory, Around<Plain>);

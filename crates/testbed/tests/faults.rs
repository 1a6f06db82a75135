//! Pauses and moved clocks, each shown on the real server: what happens, and what does not.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lockkeeper_testbed::{Etcd, MariaDb, Postgres, Redis, Setup, ZooKeeper};

const HOUR: Duration = Duration::from_secs(3600);

fn with_clock() -> Setup {
    Setup::new().movable_clock()
}

/// Seconds by which a server's Unix time differs from the machine's, to the minute.
fn minutes_ahead(server_seconds: &str) -> i64 {
    let theirs: f64 = server_seconds.trim().parse().unwrap();
    let ours = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs_f64();
    ((theirs - ours) / 60.0).round() as i64
}

#[test]
fn a_paused_redis_is_silent_and_comes_back() {
    let redis = Redis::start().unwrap();
    redis.server().pause().unwrap();
    assert!(redis.ask(&["PING"]).is_err());
    assert!(redis.server().is_running());
    redis.server().resume().unwrap();
    assert_eq!(redis.ask(&["PING"]).unwrap().text(), "PONG");
}

/// A connection that exists already is served by a child, which must stop too.
#[test]
fn a_paused_postgres_is_silent_on_open_connections() {
    let postgres = Postgres::start().unwrap();
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| {
            let start = Instant::now();
            postgres.sql("SELECT pg_sleep(0.3)").unwrap();
            start.elapsed()
        });
        std::thread::sleep(Duration::from_millis(150));
        postgres.server().pause().unwrap();
        std::thread::sleep(Duration::from_millis(600));
        assert!(!slow.is_finished());
        postgres.server().resume().unwrap();
        assert!(slow.join().unwrap() > Duration::from_millis(600));
    });
    assert_eq!(postgres.sql("SELECT 1").unwrap(), "1");
}

#[test]
fn a_server_without_a_clock_says_how_to_get_one() {
    let redis = Redis::start().unwrap();
    let error = redis.server().clock().unwrap_err().to_string();
    assert!(error.contains("Setup::movable_clock"), "{error}");
}

#[test]
fn redis_expires_by_its_wall_clock() {
    let redis = Redis::start_with(&with_clock()).unwrap();
    let clock = redis.server().clock().unwrap();
    redis.ask(&["SET", "lock", "A", "PX", "60000"]).unwrap();
    assert_eq!(redis.ask(&["GET", "lock"]).unwrap().text(), "A");
    clock.forward(HOUR).unwrap();
    assert_eq!(redis.ask(&["GET", "lock"]).unwrap().text(), "");

    redis.ask(&["SET", "lock", "B", "PX", "60000"]).unwrap();
    clock.back(HOUR).unwrap();
    let left: u64 = redis
        .ask(&["PTTL", "lock"])
        .unwrap()
        .text()
        .parse()
        .unwrap();
    assert!(left > 3_600_000, "{left}");
    clock.back(HOUR).unwrap();
    let now = redis.ask(&["TIME"]).unwrap().text();
    assert_eq!(minutes_ahead(now.lines().next().unwrap()), -60);
    clock.set_true().unwrap();
    let now = redis.ask(&["TIME"]).unwrap().text();
    assert_eq!(minutes_ahead(now.lines().next().unwrap()), 0);
}

#[test]
fn a_moved_clock_moves_one_server_and_outlives_its_restart() {
    let moved = Redis::start_with(&with_clock()).unwrap();
    let other = Redis::start_with(&with_clock()).unwrap();
    moved.server().clock().unwrap().forward(HOUR).unwrap();
    moved.server().restart().unwrap();
    let time = |redis: &Redis| redis.ask(&["TIME"]).unwrap().text();
    assert_eq!(minutes_ahead(time(&moved).lines().next().unwrap()), 60);
    assert_eq!(minutes_ahead(time(&other).lines().next().unwrap()), 0);
}

#[test]
fn postgres_now_moves() {
    let postgres = Postgres::start_with(&with_clock()).unwrap();
    let now = || postgres.sql("SELECT extract(epoch FROM now())").unwrap();
    assert_eq!(minutes_ahead(&now()), 0);
    postgres.server().clock().unwrap().forward(HOUR).unwrap();
    assert_eq!(minutes_ahead(&now()), 60);
    postgres.server().clock().unwrap().back(2 * HOUR).unwrap();
    assert_eq!(minutes_ahead(&now()), -60);
}

#[test]
fn mariadb_now_moves() {
    let mariadb = MariaDb::start_with(&with_clock()).unwrap();
    let now = || mariadb.sql("SELECT UNIX_TIMESTAMP(NOW(6))").unwrap();
    assert_eq!(minutes_ahead(&now()), 0);
    mariadb.server().clock().unwrap().forward(HOUR).unwrap();
    assert_eq!(minutes_ahead(&now()), 60);
    mariadb.server().clock().unwrap().back(2 * HOUR).unwrap();
    assert_eq!(minutes_ahead(&now()), -60);
}

/// The log's time stamps move and the lease does not: etcd counts leases by a monotonic clock.
#[test]
fn an_etcd_lease_is_immune_to_the_wall_clock() {
    let etcd = Etcd::start_with(&with_clock().setting("log-level", "info")).unwrap();
    let granted = etcd.ctl(&["lease", "grant", "60"]).unwrap();
    let lease = granted.split_whitespace().nth(1).unwrap().to_owned();
    etcd.ctl(&["put", "lock", "A", "--lease", &lease]).unwrap();
    etcd.server().clock().unwrap().forward(HOUR).unwrap();
    etcd.ctl(&["compaction", "1"]).unwrap();
    std::thread::sleep(Duration::from_millis(700));

    let hour = |log_line: &str| -> Option<u64> {
        let stamp = log_line.split(r#""ts":""#).nth(1)?;
        stamp.get(11..13)?.parse().ok()
    };
    let log = etcd.server().log_tail();
    let first = log.lines().find_map(hour).unwrap();
    let last = log.lines().rev().find_map(hour).unwrap();
    assert!([1, 2].contains(&((last + 24 - first) % 24)), "{log}");
    assert_eq!(
        etcd.ctl(&["get", "lock", "--print-value-only"]).unwrap(),
        "A\n"
    );
    let left = etcd.ctl(&["lease", "timetolive", &lease]).unwrap();
    assert!(left.contains("granted with TTL(60s), remaining("), "{left}");
    assert!(!left.contains("already expired"), "{left}");
}

/// Creation times move and the session does not: ZooKeeper counts sessions by a monotonic clock.
#[test]
fn a_zookeeper_session_is_immune_to_the_wall_clock() {
    let zookeeper = ZooKeeper::start_with(&with_clock()).unwrap();
    let mut session = Session::open(zookeeper.address());
    assert_eq!(minutes_ahead(&session.create("/before")), 0);
    zookeeper.server().clock().unwrap().forward(HOUR).unwrap();
    // Longer than a tick, so that expiry has had its chance.
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(minutes_ahead(&session.create("/after")), 60);
}

/// Just enough of ZooKeeper's protocol: a session of ten seconds that can create nodes.
struct Session(TcpStream);

impl Session {
    fn open(address: std::net::SocketAddr) -> Session {
        let stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let mut session = Session(stream);
        // Protocol version, last zxid seen, time-out, session id, password of 16 bytes.
        let mut hello = vec![0; 12];
        hello.extend_from_slice(&10_000_i32.to_be_bytes());
        hello.extend_from_slice(&[0; 8]);
        hello.extend_from_slice(&16_i32.to_be_bytes());
        hello.extend_from_slice(&[0; 16]);
        session.exchange(&hello);
        session
    }

    /// Creates an ephemeral node that all may use, and gives its creation time in Unix seconds.
    fn create(&mut self, path: &str) -> String {
        const CREATE_AND_STAT: i32 = 15;
        let mut request = Vec::new();
        let number = |bytes: &mut Vec<u8>, value: i32| bytes.extend(value.to_be_bytes());
        let text = |bytes: &mut Vec<u8>, text: &str| {
            bytes.extend(i32::try_from(text.len()).unwrap().to_be_bytes());
            bytes.extend(text.as_bytes());
        };
        number(&mut request, 1);
        number(&mut request, CREATE_AND_STAT);
        text(&mut request, path);
        text(&mut request, "");
        number(&mut request, 1);
        number(&mut request, 31);
        text(&mut request, "world");
        text(&mut request, "anyone");
        number(&mut request, 1);
        let reply = self.exchange(&request);
        assert_eq!(reply[12..16], [0; 4], "error code");
        // After header (16), path, czxid (8) and mzxid (8).
        let at = 16 + 4 + path.len() + 16;
        let millis = i64::from_be_bytes(reply[at..at + 8].try_into().unwrap());
        (millis / 1000).to_string()
    }

    fn exchange(&mut self, request: &[u8]) -> Vec<u8> {
        let length = u32::try_from(request.len()).unwrap();
        self.0.write_all(&length.to_be_bytes()).unwrap();
        self.0.write_all(request).unwrap();
        let mut length = [0; 4];
        self.0.read_exact(&mut length).unwrap();
        let mut reply = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut reply).unwrap();
        reply
    }
}

//! The stage: a path of its own on a server, claims, and other processes that play a role there.

use std::fmt::Display;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use lockkeeper::backend::{Backend, Entry, Standing, Wake, Wakes};
use lockkeeper::backends::zookeeper::{Config, connect};
use lockkeeper::claim::{Claim, ClaimId, Party};
use lockkeeper::{Clock, Keeper, Mode, Name};
use lockkeeper_testbed::{Actor, ZooKeeper};
use zookeeper_client::Client;

/// Every wait of a test ends here at the latest, so that a lost push is a failure and not a hang.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Longer than a test: what is gone sooner did not go by its end.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// The session of keepers whose end is waited for.
pub(crate) const SESSION: Duration = Duration::from_secs(2);
/// What other processes hold on.
pub(crate) const ROLE_LEASE: Duration = SESSION;

/// A server that all tests share which do it no harm.
pub(crate) fn server() -> &'static ZooKeeper {
    static SERVER: OnceLock<ZooKeeper> = OnceLock::new();
    SERVER.get_or_init(|| ZooKeeper::start().expect("a ZooKeeper server"))
}

/// A path of its own on some servers.
pub(crate) struct Corner {
    hosts: String,
    pub(crate) path: String,
}

impl Corner {
    pub(crate) fn shared() -> Self {
        Self::on(&[server().address()])
    }

    pub(crate) fn on<A: Display>(addresses: &[A]) -> Self {
        static CORNERS: AtomicUsize = AtomicUsize::new(0);
        let corner = CORNERS.fetch_add(1, Ordering::Relaxed);
        Self::at(addresses, &format!("/corner{corner}"))
    }

    pub(crate) fn at<A: Display>(addresses: &[A], path: &str) -> Self {
        let hosts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        Self {
            hosts: hosts.join(","),
            path: path.to_owned(),
        }
    }

    /// The same path through another way.
    pub(crate) fn through<A: Display>(&self, addresses: &[A]) -> Self {
        Self::at(addresses, &self.path)
    }

    pub(crate) fn url(&self, settings: &str) -> String {
        format!("zookeeper://{}{}?{settings}", self.hosts, self.path)
    }

    pub(crate) async fn connect(&self, settings: &str) -> Arc<dyn Backend> {
        let config = Config::from_url(&self.url(settings)).unwrap();
        connect(&config, Clock::system()).await.unwrap()
    }

    /// With the session whose end is waited for.
    pub(crate) async fn backend(&self) -> Arc<dyn Backend> {
        self.connect(&session()).await
    }

    pub(crate) async fn keeper(&self) -> Keeper {
        let builder = Keeper::builder().label("test").lease(SESSION);
        builder.connect(&self.url(&session())).await.unwrap()
    }

    /// With a session that outlives a restart of a server.
    pub(crate) async fn patient_keeper(&self) -> Keeper {
        let builder = Keeper::builder()
            .label("test")
            .lease(Duration::from_secs(20));
        builder.connect(&self.url("session=20s")).await.unwrap()
    }

    /// Somebody with a plain client.
    pub(crate) async fn stranger(&self) -> Client {
        let connector = Client::connector().with_session_timeout(Duration::from_secs(30));
        connector.connect(&self.hosts).await.unwrap()
    }

    /// The nodes below that of a name.
    pub(crate) async fn children(&self, stranger: &Client, name: &str) -> Vec<String> {
        stranger.sync("/").await.unwrap();
        let path = format!("{}/{name}", self.path);
        stranger.list_children(&path).await.unwrap_or_default()
    }

    /// Waits until so many nodes are below that of a name.
    pub(crate) async fn comes_to(&self, stranger: &Client, name: &str, count: usize) {
        let begun = Instant::now();
        loop {
            let children = self.children(stranger, name).await;
            if children.len() == count {
                return;
            }
            assert!(begun.elapsed() < SOON, "{count} expected: {children:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn play(&self, role: &str, name: &str) -> Actor {
        self.play_on(role, name, SESSION)
    }

    /// With a session and a lease of this length.
    pub(crate) fn play_on(&self, role: &str, name: &str, session: Duration) -> Actor {
        let millis = session.as_millis().to_string();
        Actor::play(&[
            ("LOCKKEEPER_TEST_ROLE", role),
            (
                "LOCKKEEPER_TEST_URL",
                &self.url(&format!("session={millis}ms")),
            ),
            ("LOCKKEEPER_TEST_NAME", name),
            ("LOCKKEEPER_TEST_LEASE_MS", &millis),
        ])
    }
}

fn session() -> String {
    format!("session={}ms", SESSION.as_millis())
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn claim(text: &str, mode: Mode) -> Claim {
    Claim {
        id: ClaimId::random().unwrap(),
        name: name(text),
        mode,
        lease: LONG,
        party: Arc::new(Party::here("test")),
    }
}

pub(crate) fn exclusive(text: &str) -> Claim {
    claim(text, Mode::Exclusive)
}

/// The order number of a standing that must be a hold.
#[track_caller]
pub(crate) fn order(standing: Standing) -> u64 {
    match standing {
        Standing::Holds { order, .. } => order,
        standing => panic!("it does not hold: {standing:?}"),
    }
}

#[track_caller]
pub(crate) fn ahead(standing: Standing) -> usize {
    match standing {
        Standing::Waits { ahead, .. } => ahead,
        standing => panic!("it does not wait: {standing:?}"),
    }
}

pub(crate) async fn takes(backend: &Arc<dyn Backend>, claim: &Claim) -> u64 {
    order(backend.enter(claim, Entry::Queue).await.unwrap())
}

/// How many are ahead of it.
pub(crate) async fn lines_up(backend: &Arc<dyn Backend>, claim: &Claim) -> usize {
    ahead(backend.enter(claim, Entry::Queue).await.unwrap())
}

pub(crate) async fn standing(backend: &Arc<dyn Backend>, claim: &Claim) -> Standing {
    backend.renew(std::slice::from_ref(claim)).await.unwrap()[0]
}

/// The push that the claim holds, which must come.
pub(crate) async fn hears(wakes: &mut Wakes, claim: &Claim) -> u64 {
    let told = async {
        loop {
            match wakes.next().await {
                Some(Wake::Holds { claim: id, order }) if id == claim.id => return order,
                Some(Wake::LookAll) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    tokio::time::timeout(SOON, told).await.expect("a push")
}

/// Asks until the outcome is known, as the lifecycle does.
pub(crate) async fn insists<T, F>(call: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, lockkeeper::Error>>,
{
    let begun = Instant::now();
    loop {
        match tokio::time::timeout(Duration::from_secs(1), call()).await {
            Ok(Ok(told)) => return told,
            Ok(Err(error)) => assert!(error.is_unknown(), "{error}"),
            Err(_) => {}
        }
        assert!(begun.elapsed() < SOON, "no answer");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

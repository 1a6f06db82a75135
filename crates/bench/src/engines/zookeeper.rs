//! ZooKeeper's own counters do not tell a ping from a request, so whoever wants to be counted connects
//! through this: it passes everything on and looks at the head of each frame.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_testbed::ZooKeeper;

use super::{Counts, Meter};
use crate::Result;

/// The numbers that frames of these kinds have instead of a request's.
const NOTICE: i32 = -1;
const PING: i32 = -2;

#[derive(Debug)]
pub(super) struct Tap {
    address: SocketAddr,
    seen: Arc<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    commands: AtomicU64,
    keep_alives: AtomicU64,
    notices: AtomicU64,
}

impl Tap {
    pub(super) fn before(zookeeper: &ZooKeeper) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (server, seen) = (zookeeper.address(), Arc::<Seen>::default());
        let counted = seen.clone();
        // It ends with the process; a connection ends with either of its ends.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if let Err(error) = connect(&client, server, &counted) {
                    eprintln!("lockkeeper-bench: a connection was refused: {error}");
                }
            }
        });
        Ok(Self { address, seen })
    }
}

impl Meter for Tap {
    fn url(&self) -> String {
        format!("zookeeper://{}", self.address)
    }

    fn read(&self) -> Result<Counts> {
        Ok(Counts {
            commands: self.seen.commands.load(Ordering::Relaxed),
            inner: 0,
            keep_alives: self.seen.keep_alives.load(Ordering::Relaxed),
            notices: self.seen.notices.load(Ordering::Relaxed),
        })
    }
}

fn connect(client: &TcpStream, server: SocketAddr, seen: &Arc<Seen>) -> std::io::Result<()> {
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (requests, answers) = (seen.clone(), seen.clone());
    pass_on(client, &server, move |number| match number {
        PING => requests.keep_alives.fetch_add(1, Ordering::Relaxed),
        _ => requests.commands.fetch_add(1, Ordering::Relaxed),
    })?;
    pass_on(&server, client, move |number| match number {
        NOTICE => answers.notices.fetch_add(1, Ordering::Relaxed),
        _ => 0,
    })
}

/// Passes frames on, on a thread of their own, and shows the number of each.
fn pass_on(
    from: &TcpStream,
    to: &TcpStream,
    see: impl Fn(i32) -> u64 + Send + 'static,
) -> std::io::Result<()> {
    let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
    std::thread::spawn(move || {
        // The first frame of a connection opens the session and has no number.
        let mut opened = false;
        while let Ok(frame) = frame(&mut from) {
            let number = frame.get(4..8).and_then(|head| head.try_into().ok());
            if let Some(head) = number.filter(|_| opened) {
                see(i32::from_be_bytes(head));
            }
            opened = true;
            if to.write_all(&frame).is_err() {
                break;
            }
        }
        // Fails if the other direction has ended already.
        let _closed = to.shutdown(Shutdown::Both);
        let _closed = from.shutdown(Shutdown::Both);
    });
    Ok(())
}

/// A frame with its length before it.
fn frame(from: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    from.read_exact(&mut frame)?;
    let length = u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]);
    from.take(length.into()).read_to_end(&mut frame)?;
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use zookeeper_client::{Acls, Client, CreateMode};

    use super::*;

    #[tokio::test]
    async fn requests_and_notices_are_told_apart() {
        let zookeeper = ZooKeeper::start().unwrap();
        let tap = Tap::before(&zookeeper).unwrap();
        let client = Client::connect(&tap.address.to_string()).await.unwrap();
        let before = tap.read().unwrap();
        let plain = CreateMode::Persistent.with_acls(Acls::anyone_all());
        client.create("/a", b"", &plain).await.unwrap();
        let (_, watcher) = client.check_and_watch_stat("/a").await.unwrap();
        client.delete("/a", None).await.unwrap();
        watcher.changed().await;
        let counts = tap.read().unwrap() - before;
        assert_eq!((counts.commands, counts.notices), (3, 1));
    }
}

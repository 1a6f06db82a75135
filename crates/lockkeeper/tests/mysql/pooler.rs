//! A proxy that hands connections about, as transaction poolers do: each command goes to another connection of the server.

use std::net::SocketAddr;
use std::time::Duration;

use lockkeeper::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::stage::{Corner, server};

/// A reply is complete when nothing more has come for this long.
const QUIET: Duration = Duration::from_millis(100);

/// One packet with its header.
async fn packet(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let mut whole = vec![0; 4];
    stream.read_exact(&mut whole).await?;
    let length = usize::from(whole[0]) | usize::from(whole[1]) << 8 | usize::from(whole[2]) << 16;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await?;
    whole.extend(payload);
    Ok(whole)
}

/// Passes on from one to the other until it is quiet.
async fn relay(from: &mut TcpStream, to: &mut TcpStream) -> Result<()> {
    let mut first = true;
    let mut some = vec![0; 1 << 16];
    loop {
        let patience = if first { 100 * QUIET } else { QUIET };
        let Ok(read) = timeout(patience, from.read(&mut some)).await else {
            return Ok(());
        };
        match read? {
            0 => return Ok(()),
            read => to.write_all(&some[..read]).await?,
        }
        first = false;
    }
}

/// Serves one client with two connections of the server, in turns. Nobody has a password, so what the client says to the one
/// lets it in to the other as well.
async fn serve(mut client: TcpStream, server: SocketAddr) -> Result<()> {
    let mut one = TcpStream::connect(server).await?;
    let greeting = packet(&mut one).await?;
    client.write_all(&greeting).await?;
    let login = packet(&mut client).await?;
    one.write_all(&login).await?;
    relay(&mut one, &mut client).await?;
    let mut two = TcpStream::connect(server).await?;
    packet(&mut two).await?;
    two.write_all(&login).await?;
    packet(&mut two).await?;
    for turn in 0.. {
        let command = packet(&mut client).await?;
        let next = if turn % 2 == 0 { &mut one } else { &mut two };
        next.write_all(&command).await?;
        relay(next, &mut client).await?;
    }
    Ok(())
}

// bug 74
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_hands_connections_about_is_refused() {
    let direct = Corner::session(server().address());
    drop(direct.backend().await);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pooled = direct.through(listener.local_addr().unwrap());
    let pooling = tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, server().address()));
        }
    });
    let refused = pooled.connect().await.unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("proxy"), "{refused}");
    pooling.abort();
}

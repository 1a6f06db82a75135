//! The smallest possible client: connect, send, read until enough. Used to ask a server whether it
//! is up, over its own protocol and without a client library.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A command to a server that is up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);

/// A server that is coming up answers within a blink or is asked again: etcd, for one, lets a
/// question wait that comes before it has a leader, and answers the next one at once.
pub(crate) const PATIENCE_AT_START: Duration = Duration::from_millis(250);

/// No answer that is waited for here is longer.
const LONGEST_ANSWER: usize = 1 << 20;

/// A connection whose every read and write is bounded in time.
pub(crate) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends `question` and reads until `enough` says so or the server closes.
pub(crate) fn ask(
    address: SocketAddr,
    question: &[u8],
    patience: Duration,
    enough: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    let mut stream = connect(address)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(question)?;
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    while !enough(&answer) && answer.len() < LONGEST_ANSWER {
        match stream.read(&mut chunk)? {
            0 => break,
            length => answer.extend_from_slice(&chunk[..length]),
        }
    }
    Ok(answer)
}

/// Whether the bytes contain the text.
pub(crate) fn has(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

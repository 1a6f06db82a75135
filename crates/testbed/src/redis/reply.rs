//! One command, one reply, in Redis's own protocol.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;

use crate::error::{Doing, Error, Result};
use crate::wire;

/// What Redis answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A status or a string.
    Text(String),
    /// A number.
    Number(i64),
    /// No such key, or condition not met.
    Nothing,
    /// An array.
    List(Vec<Reply>),
}

impl Reply {
    /// The reply as text; numbers in decimal, nothing as the empty text, arrays as lines.
    #[must_use]
    pub fn text(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Text(text) => f.write_str(text),
            Reply::Number(number) => write!(f, "{number}"),
            Reply::Nothing => Ok(()),
            Reply::List(items) => items.iter().try_for_each(|item| writeln!(f, "{item}")),
        }
    }
}

/// Asks on a new connection.
pub(super) fn ask(address: SocketAddr, command: &[&str]) -> Result<Reply> {
    let what = || format!("{} at {address}", command.join(" "));
    let mut stream = wire::connect(address).doing(what())?;
    stream.write_all(&encode(command)).doing(what())?;
    let answer = read(&mut BufReader::new(stream)).doing(what())?;
    answer.map_err(|output| Error::Command {
        what: what(),
        output,
    })
}

fn encode(command: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
    for word in command {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

/// The inner error is Redis's own.
fn read(stream: &mut impl BufRead) -> io::Result<std::result::Result<Reply, String>> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = line.trim_end();
    let Some((kind, rest)) = line.split_at_checked(1) else {
        return Err(nonsense(line));
    };
    if kind == "-" {
        return Ok(Err(rest.to_owned()));
    }
    if kind == "+" {
        return Ok(Ok(Reply::Text(rest.to_owned())));
    }
    let number: i64 = rest.parse().map_err(|_| nonsense(line))?;
    match kind {
        ":" => Ok(Ok(Reply::Number(number))),
        "$" => read_string(stream, number).map(Ok),
        "*" => read_list(stream, number),
        _ => Err(nonsense(line)),
    }
}

fn read_string(stream: &mut impl BufRead, length: i64) -> io::Result<Reply> {
    let Ok(length) = usize::try_from(length) else {
        return Ok(Reply::Nothing);
    };
    let mut bytes = vec![0; length + 2];
    stream.read_exact(&mut bytes)?;
    bytes.truncate(length);
    Ok(Reply::Text(String::from_utf8_lossy(&bytes).into_owned()))
}

fn read_list(
    stream: &mut impl BufRead,
    length: i64,
) -> io::Result<std::result::Result<Reply, String>> {
    let Ok(length) = usize::try_from(length) else {
        return Ok(Ok(Reply::Nothing));
    };
    let mut items = Vec::new();
    for _ in 0..length {
        match read(stream)? {
            Ok(item) => items.push(item),
            Err(refusal) => return Ok(Err(refusal)),
        }
    }
    Ok(Ok(Reply::List(items)))
}

fn nonsense(line: &str) -> io::Error {
    io::Error::other(format!("not a Redis reply: {line:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(bytes: &str) -> std::result::Result<Reply, String> {
        read(&mut bytes.as_bytes()).unwrap()
    }

    #[test]
    fn replies_of_every_kind() {
        assert_eq!(reply("+OK\r\n"), Ok(Reply::Text("OK".into())));
        assert_eq!(reply(":-2\r\n"), Ok(Reply::Number(-2)));
        assert_eq!(reply("$-1\r\n"), Ok(Reply::Nothing));
        assert_eq!(reply("$4\r\na\r\nb\r\n"), Ok(Reply::Text("a\r\nb".into())));
        assert_eq!(reply("-ERR no\r\n"), Err("ERR no".into()));
        let list = Reply::List(vec![Reply::Text("a".into()), Reply::Number(1)]);
        assert_eq!(reply("*2\r\n$1\r\na\r\n:1\r\n"), Ok(list));
    }
}

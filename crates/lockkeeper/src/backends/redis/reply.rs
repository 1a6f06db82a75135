//! Decodes replies of the protocol (RESP3), one value at a time.
//!
//! Most replies arrive in one piece and are decoded directly. For a reply that arrives in several pieces a [`Frame`]
//! remembers how far it was scanned, so that each byte is scanned once and decoded once, however small the pieces are.
//! A reply longer than [`LONGEST`] is an error: the server must not decide how much memory the client uses.

use redis::{RedisError, Value};

/// No answer to what is asked here is nested nearly as deep.
const DEEPEST: usize = 16;
/// Room for so many values is made before they have come; a longer list grows as it comes.
const EXPECTED: usize = 1024;

/// The longest reply that is accepted, in bytes. The longest one that a server sends in use is the queue of one name: about
/// 200 bytes per waiter.
pub(super) const LONGEST: usize = 16 * 1024 * 1024;

/// What a server said.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    /// The answer to the oldest question. A refusal is a [`Value::ServerError`].
    Answer(Value),
    /// Something else: a message, or that a channel is heard from now on, or no longer.
    Push(Vec<Value>),
}

/// Bytes that are no RESP3, or a reply longer than [`LONGEST`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Nonsense;

/// How much of the first, still incomplete reply has been scanned.
#[derive(Debug)]
pub(super) struct Frame {
    /// The bytes that belong to elements which are complete.
    scanned: usize,
    /// How many elements are still missing. The reply itself is one.
    missing: usize,
    /// Nothing is decided before this many bytes have arrived.
    wanted: usize,
    #[cfg(test)]
    elements: usize,
}

impl Default for Frame {
    fn default() -> Self {
        Self {
            scanned: 0,
            missing: 1,
            wanted: 0,
            #[cfg(test)]
            elements: 0,
        }
    }
}

impl Frame {
    /// Goes on scanning where the last call stopped. Returns whether the reply at the start of `bytes` is complete.
    pub(super) fn is_complete(&mut self, bytes: &[u8]) -> Result<bool, Nonsense> {
        while self.missing > 0 {
            if bytes.len() < self.wanted {
                return Ok(false);
            }
            let mut element = Bytes {
                all: bytes,
                at: self.scanned,
            };
            match element.skip_header() {
                Ok(Header { inner, payload }) => {
                    let end = element.at.saturating_add(payload);
                    self.wanted = end;
                    if end > LONGEST || inner > LONGEST {
                        return Err(Nonsense);
                    }
                    if bytes.len() < end {
                        return Ok(false);
                    }
                    self.scanned = end;
                    self.missing = self.missing - 1 + inner;
                    #[cfg(test)]
                    (self.elements += 1);
                }
                Err(Stop::Unfinished) => {
                    // A header or a line of text without its end: it is short, or the limit ends it.
                    self.wanted = bytes.len() + 1;
                    return if bytes.len() > LONGEST {
                        Err(Nonsense)
                    } else {
                        Ok(false)
                    };
                }
                Err(Stop::Nonsense) => return Err(Nonsense),
            }
        }
        Ok(true)
    }
}

/// What follows the first line of an element.
struct Header {
    /// How many elements are part of it.
    inner: usize,
    /// How many bytes of text, with the end of the line.
    payload: usize,
}

/// The first thing that was said, and how many bytes it took; `None` when its end has not come yet.
pub(super) fn first(bytes: &[u8]) -> Result<Option<(Said, usize)>, Nonsense> {
    let mut bytes = Bytes { all: bytes, at: 0 };
    let said = match bytes.all.first() {
        Some(b'>') => bytes.push().map(Said::Push),
        _ => bytes.value(DEEPEST).map(Said::Answer),
    };
    match said {
        Ok(said) => Ok(Some((said, bytes.at))),
        Err(Stop::Unfinished) => Ok(None),
        Err(Stop::Nonsense) => Err(Nonsense),
    }
}

enum Stop {
    Unfinished,
    Nonsense,
}

struct Bytes<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    /// Steps over the first line of an element.
    fn skip_header(&mut self) -> Result<Header, Stop> {
        let kind = *self.all.get(self.at).ok_or(Stop::Unfinished)?;
        self.at += 1;
        let (inner, payload) = match kind {
            b'$' | b'=' | b'!' => (
                0,
                self.count()?.map_or(0, |length| length.saturating_add(2)),
            ),
            b'*' | b'~' | b'>' => (self.count()?.unwrap_or(0), 0),
            b'%' => (self.count()?.unwrap_or(0).saturating_mul(2), 0),
            _ => {
                self.line()?;
                (0, 0)
            }
        };
        Ok(Header { inner, payload })
    }

    fn push(&mut self) -> Result<Vec<Value>, Stop> {
        self.at += 1;
        let count = self.count()?.ok_or(Stop::Nonsense)?;
        self.values(count, DEEPEST)
    }

    fn value(&mut self, depth: usize) -> Result<Value, Stop> {
        let deeper = depth.checked_sub(1).ok_or(Stop::Nonsense)?;
        let begin = self.at;
        let kind = *self.all.get(begin).ok_or(Stop::Unfinished)?;
        self.at += 1;
        Ok(match kind {
            b':' => Value::Int(number(self.line()?)?),
            b'$' => match self.count()? {
                Some(length) => Value::BulkString(self.text(length)?.to_vec()),
                None => Value::Nil,
            },
            b'+' => match self.line()? {
                b"OK" => Value::Okay,
                text => Value::SimpleString(String::from_utf8_lossy(text).into_owned()),
            },
            b'*' => match self.count()? {
                Some(count) => Value::Array(self.values(count, deeper)?),
                None => Value::Nil,
            },
            b'~' => Value::Set(self.some(1, deeper)?),
            b'%' => {
                let flat = self.some(2, deeper)?.into_iter();
                let (keys, values): (Vec<_>, Vec<_>) =
                    flat.enumerate().partition(|(place, _)| place % 2 == 0);
                let pairs = keys.into_iter().zip(values);
                Value::Map(pairs.map(|((_, key), (_, value))| (key, value)).collect())
            }
            b'_' => {
                self.line()?;
                Value::Nil
            }
            b'#' => Value::Boolean(self.line()? == b"t"),
            // "txt:" and the text.
            b'=' => {
                let length = self.count()?.ok_or(Stop::Nonsense)?;
                let text = self.text(length)?;
                Value::BulkString(text.get(4..).ok_or(Stop::Nonsense)?.to_vec())
            }
            b'-' => {
                self.line()?;
                self.refusal(begin)?
            }
            b'!' => {
                let length = self.count()?.ok_or(Stop::Nonsense)?;
                self.text(length)?;
                self.refusal(begin)?
            }
            // Nothing that is asked here is answered by a fraction or a number of more than 64 bits.
            _ => return Err(Stop::Nonsense),
        })
    }

    /// What the server refuses, and in which words, is the client library's to tell.
    fn refusal(&self, begin: usize) -> Result<Value, Stop> {
        let whole = &self.all[begin..self.at];
        redis::parse_redis_value(whole).map_err(|_: RedisError| Stop::Nonsense)
    }

    /// As many values as a number says, `each` of them for one.
    fn some(&mut self, each: usize, depth: usize) -> Result<Vec<Value>, Stop> {
        let count = self.count()?.ok_or(Stop::Nonsense)?;
        self.values(count.saturating_mul(each), depth)
    }

    fn values(&mut self, count: usize, depth: usize) -> Result<Vec<Value>, Stop> {
        let mut values = Vec::with_capacity(count.min(EXPECTED));
        for _ in 0..count {
            values.push(self.value(depth)?);
        }
        Ok(values)
    }

    /// A length or a count; `None` is the "-1" of what is not there.
    fn count(&mut self) -> Result<Option<usize>, Stop> {
        match number(self.line()?)? {
            -1 => Ok(None),
            count => usize::try_from(count).map(Some).map_err(|_| Stop::Nonsense),
        }
    }

    fn text(&mut self, length: usize) -> Result<&'a [u8], Stop> {
        let end = self.at.checked_add(length).ok_or(Stop::Nonsense)?;
        let text = self.all.get(self.at..end).ok_or(Stop::Unfinished)?;
        match self.all.get(end..end + 2) {
            None => Err(Stop::Unfinished),
            Some(b"\r\n") => {
                self.at = end + 2;
                Ok(text)
            }
            Some(_) => Err(Stop::Nonsense),
        }
    }

    /// Up to the end of the line, which is stepped over.
    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let rest = &self.all[self.at..];
        let length = rest.iter().position(|byte| *byte == b'\r');
        let length = length.ok_or(Stop::Unfinished)?;
        match rest.get(length + 1) {
            None => Err(Stop::Unfinished),
            Some(b'\n') => {
                self.at += length + 2;
                Ok(&rest[..length])
            }
            Some(_) => Err(Stop::Nonsense),
        }
    }
}

fn number(text: &[u8]) -> Result<i64, Stop> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        digits => (1, digits),
    };
    if digits.is_empty() {
        return Err(Stop::Nonsense);
    }
    let number = digits.iter().try_fold(0_i64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(sign * digit)
    });
    number.ok_or(Stop::Nonsense)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn everything_that_is_asked_for_can_be_read() {
        let array = |values| Value::Array(values);
        let cases: &[(&[u8], Value)] = &[
            (b"+OK\r\n", Value::Okay),
            (b"+PONG\r\n", Value::SimpleString("PONG".into())),
            (b":-7\r\n", Value::Int(-7)),
            (b":-9223372036854775808\r\n", Value::Int(i64::MIN)),
            (b"$3\r\na\rb\r\n", bulk("a\rb")),
            (b"$0\r\n\r\n", bulk("")),
            (b"$-1\r\n", Value::Nil),
            (b"_\r\n", Value::Nil),
            (b"#t\r\n", Value::Boolean(true)),
            (b"=8\r\ntxt:info\r\n", bulk("info")),
            (b"*0\r\n", array(vec![])),
            (
                b"*2\r\n:1\r\n*1\r\n$1\r\nx\r\n",
                array(vec![Value::Int(1), array(vec![bulk("x")])]),
            ),
            (
                b"%1\r\n$1\r\nk\r\n:2\r\n",
                Value::Map(vec![(bulk("k"), Value::Int(2))]),
            ),
            (b"~1\r\n:3\r\n", Value::Set(vec![Value::Int(3)])),
        ];
        for (bytes, value) in cases {
            let told = first(bytes).unwrap();
            let expected = (Said::Answer(value.clone()), bytes.len());
            assert_eq!(told, Some(expected), "{bytes:?}");
        }
    }

    #[test]
    fn a_refusal_keeps_the_servers_words() {
        for refusal in [
            &b"-NOSCRIPT No matching script.\r\n"[..],
            b"!30\r\nNOSCRIPT No matching script..x\r\n",
        ] {
            let Ok(Some((Said::Answer(value), length))) = first(refusal) else {
                panic!("{refusal:?} was not read");
            };
            assert_eq!(length, refusal.len());
            let error = value.extract_error().unwrap_err();
            assert_eq!(error.code(), Some("NOSCRIPT"));
            let detail = error.detail().unwrap_or_default();
            assert!(detail.starts_with("No matching script"), "{detail}");
        }
    }

    #[test]
    fn messages_are_no_answers() {
        let bytes = b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\np\r\n:1\r\n";
        let message = vec![bulk("message"), bulk("c"), bulk("p")];
        let length = bytes.len() - 4;
        assert_eq!(first(bytes), Ok(Some((Said::Push(message), length))));
    }

    #[test]
    fn nonsense_is_told_from_what_is_unfinished() {
        for bytes in [
            &b"hello\r\n"[..],
            b":x\r\n",
            b":\r\n",
            b":-\r\n",
            b":1-\r\n",
            b":9223372036854775808\r\n",
            b"$-2\r\n",
            b"$1\r\nabc",
            b"+OK\rx",
            b">-1\r\n",
            b"=2\r\nab\r\n",
            b"$99999999999999999999\r\n",
        ] {
            assert_eq!(first(bytes), Err(Nonsense), "{bytes:?}");
        }
        // As deep as a hostile server likes.
        assert_eq!(first(&b"*1\r\n".repeat(100_000)), Err(Nonsense));
        // A list that is said to be endless takes no room before it comes.
        assert_eq!(first(b"*999999999999\r\n:1\r\n"), Ok(None));
    }

    /// What the frame says while the bytes arrive in pieces of this length.
    fn arrive(bytes: &[u8], piece: usize) -> (Frame, Result<bool, Nonsense>) {
        let mut frame = Frame::default();
        let mut complete = Ok(false);
        for end in (piece..bytes.len()).step_by(piece).chain([bytes.len()]) {
            complete = frame.is_complete(&bytes[..end]);
            if complete != Ok(false) {
                break;
            }
        }
        (frame, complete)
    }

    /// A reply in many pieces costs as much as in one: no element is scanned twice.
    // proves: T2
    #[test]
    fn a_reply_in_pieces_is_scanned_once() {
        let mut bytes = b"*10000\r\n".to_vec();
        bytes.extend(b"%1\r\n$1\r\nk\r\n:2\r\n".repeat(10_000));
        let (frame, complete) = arrive(&bytes, 7);
        assert_eq!(complete, Ok(true));
        assert_eq!(frame.elements, 1 + 3 * 10_000);
        assert_eq!(frame.scanned, bytes.len());
    }

    // proves: T2
    #[test]
    fn a_reply_that_is_too_long_is_refused_before_it_arrives() {
        for bytes in [
            format!("${}\r\n", LONGEST).into_bytes(),
            format!("*{}\r\n", LONGEST + 1).into_bytes(),
            b"%9999999999999999999\r\n".to_vec(),
            [b"+".as_slice(), &b"x".repeat(LONGEST)].concat(),
        ] {
            assert_eq!(arrive(&bytes, bytes.len()).1, Err(Nonsense));
        }
        let fits = format!("${}\r\n", LONGEST - 100).into_bytes();
        assert_eq!(arrive(&fits, fits.len()).1, Ok(false));
    }

    proptest! {
        /// The frame is complete exactly when the whole reply can be decoded.
        #[test]
        fn a_frame_ends_where_the_reply_ends(
            texts in proptest::collection::vec(".{0,20}", 0..8),
            piece in 1_usize..9,
        ) {
            let mut bytes = format!(">{}\r\n", texts.len() * 2).into_bytes();
            for text in &texts {
                bytes.extend(format!("${}\r\n{text}\r\n*2\r\n$-1\r\n:7\r\n", text.len()).bytes());
            }
            let length = bytes.len();
            bytes.extend(b"+OK\r\n");
            let mut frame = Frame::default();
            for end in (piece..=bytes.len()).step_by(piece) {
                let complete = frame.is_complete(&bytes[..end]);
                prop_assert_eq!(complete, Ok(end >= length));
                prop_assert_eq!(first(&bytes[..end]).unwrap().is_some(), end >= length);
            }
        }

        /// Wherever the network cuts it, an answer is read once it is whole, and not before.
        #[test]
        fn an_answer_is_read_when_it_is_whole(
            texts in proptest::collection::vec(".{0,20}", 0..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = format!("*{}\r\n", texts.len()).into_bytes();
            for text in &texts {
                bytes.extend(format!("${}\r\n{text}\r\n", text.len()).bytes());
            }
            let values = texts.iter().map(|text| bulk(text)).collect();
            let whole = Some((Said::Answer(Value::Array(values)), bytes.len()));
            prop_assert_eq!(first(&bytes), Ok(whole));
            prop_assert_eq!(first(&bytes[..cut.index(bytes.len())]), Ok(None));
        }
    }
}

//! How requests and answers are written: big-endian numbers, and texts with their length before them.

use super::error::Error;

/// What a request asks for, by the servers' numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Delete = 2,
    Exists = 3,
    GetData = 4,
    SetData = 5,
    GetChildren = 8,
    Sync = 9,
    Ping = 11,
    Multi = 14,
    Create = 15,
    RemoveWatches = 18,
    CreateContainer = 19,
    Auth = 100,
    SetWatches = 101,
    GetEphemerals = 103,
    CloseSession = -11,
}

/// The numbers of frames that are no answer to a numbered request.
pub(super) const NOTICE: i32 = -1;
pub(super) const PING: i32 = -2;
pub(super) const AUTH: i32 = -4;
pub(super) const SET_WATCHES: i32 = -8;

/// What servers take at most, as they come (`jute.maxbuffer`); answers may be a little longer.
const LONGEST_FRAME: usize = 64 << 20;

/// A frame in the making. Its length and number stand before the rest.
#[derive(Debug, Clone)]
pub(super) struct Frame(Vec<u8>);

impl Frame {
    /// What opens a connection has no number and asks for nothing.
    pub(super) fn opening() -> Self {
        Self(vec![0; 4])
    }

    pub(super) fn asking(op: Op) -> Self {
        let mut bytes = Vec::with_capacity(192);
        bytes.extend([0; 8]);
        Self(bytes).int(op as i32)
    }

    pub(super) fn int(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn long(mut self, value: i64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn flag(mut self, value: bool) -> Self {
        self.0.push(value.into());
        self
    }

    pub(super) fn bytes(self, value: &[u8]) -> Self {
        let length = i32::try_from(value.len()).unwrap_or(i32::MAX);
        let mut frame = self.int(length);
        frame.0.extend_from_slice(value);
        frame
    }

    pub(super) fn text(self, value: &str) -> Self {
        self.bytes(value.as_bytes())
    }

    pub(super) fn texts(self, values: &[&str]) -> Self {
        let count = i32::try_from(values.len()).unwrap_or(i32::MAX);
        values
            .iter()
            .fold(self.int(count), |frame, value| frame.text(value))
    }

    /// With its number.
    pub(super) fn numbered(mut self, number: i32) -> Vec<u8> {
        self.0[4..8].copy_from_slice(&number.to_be_bytes());
        self.done()
    }

    pub(super) fn done(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len() - 4).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0
    }
}

/// The first whole frame of what was received, without its length, and how much of it that took.
pub(super) fn first_frame(received: &[u8]) -> Result<Option<(&[u8], usize)>, Error> {
    let Some((length, rest)) = received.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length) as usize;
    if length > LONGEST_FRAME {
        return Err(Error::Garbled);
    }
    Ok(rest.get(..length).map(|frame| (frame, length + 4)))
}

/// What is left to read of a frame.
#[derive(Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Error::Garbled)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn int(&mut self) -> Result<i32, Error> {
        self.take().map(i32::from_be_bytes)
    }

    pub(super) fn long(&mut self) -> Result<i64, Error> {
        self.take().map(i64::from_be_bytes)
    }

    pub(super) fn flag(&mut self) -> Result<bool, Error> {
        self.take().map(|[byte]| byte != 0)
    }

    /// No bytes at all are written with the length -1.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let length = usize::try_from(self.int()?.max(0)).map_err(|_| Error::Garbled)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Error::Garbled)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn text(&mut self) -> Result<String, Error> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| Error::Garbled)
    }

    pub(super) fn texts(&mut self) -> Result<Vec<String>, Error> {
        let count = self.int()?.max(0);
        (0..count).map(|_| self.text()).collect()
    }

    pub(super) fn stat(&mut self) -> Result<Stat, Error> {
        let czxid = self.long()?;
        let _mzxid = self.long()?;
        let ctime = self.long()?;
        let _mtime = self.long()?;
        let version = self.int()?;
        let (_cversion, _aversion) = (self.int()?, self.int()?);
        let ephemeral_owner = self.long()?;
        let (_length, _children, _pzxid) = (self.int()?, self.int()?, self.long()?);
        Ok(Stat {
            czxid,
            ctime,
            version,
            ephemeral_owner,
        })
    }
}

/// What is known of a node besides its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Stat {
    /// The transaction that made it.
    pub(in super::super) czxid: i64,
    /// When, by the servers' wall clock, in milliseconds.
    pub(in super::super) ctime: i64,
    /// How often its data was changed.
    pub(in super::super) version: i32,
    /// The session that it lives by, or 0.
    pub(in super::super) ephemeral_owner: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_back_as_it_went_in() {
        let frame = Frame::asking(Op::Delete).text("/é").long(-7).flag(true);
        let bytes = frame.texts(&["a", ""]).numbered(9);
        let (frame, used) = first_frame(&bytes).unwrap().unwrap();
        assert_eq!(used, bytes.len());
        let mut reader = Reader(frame);
        assert_eq!((reader.int(), reader.int()), (Ok(9), Ok(2)));
        assert_eq!(reader.text(), Ok("/é".into()));
        assert_eq!((reader.long(), reader.flag()), (Ok(-7), Ok(true)));
        assert_eq!(reader.texts(), Ok(vec!["a".into(), String::new()]));
        assert_eq!(reader.int(), Err(Error::Garbled));
    }

    #[test]
    fn what_is_cut_short_is_waited_for_and_nonsense_is_refused() {
        let bytes = Frame::asking(Op::Ping).numbered(PING);
        for end in 0..bytes.len() {
            assert_eq!(first_frame(&bytes[..end]), Ok(None));
        }
        assert_eq!(first_frame(&[0xff; 4]), Err(Error::Garbled));
        assert_eq!(Reader(&[0, 0, 0, 9, 1]).bytes(), Err(Error::Garbled));
        assert_eq!(Reader(&[0xff; 4]).bytes(), Ok(&[][..]));
    }
}

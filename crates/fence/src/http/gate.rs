//! Where a server compares, and what it keeps others from while a request is served.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::lock::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::{Name, Pass, Refusal};

/// Compares a pass with the highest one seen under a name, and raises it.
///
/// What it gives is kept until the request has been served, and nobody else enters under the name
/// meanwhile: that makes one step of the comparison and of what the request writes.
pub trait Gate: Send + Sync + 'static {
    /// Dropped when the request has been served.
    type Entered: Send + 'static;

    /// Waits for its turn, compares, raises.
    fn enter(
        &self,
        name: &Name,
        pass: &Pass,
    ) -> impl Future<Output = Result<Self::Entered, GateError>> + Send;
}

/// Why nobody is let through.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// The pass is refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The gate cannot tell.
    #[error("{0}; nothing was written, try again")]
    Unavailable(String),
}

/// Lets everybody through whose pass has the right shape: for a service whose handlers give
/// [`super::Admitted`] to the fence of their store. On its own it protects nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenGate;

impl Gate for OpenGate {
    type Entered = ();

    async fn enter(&self, _: &Name, _: &Pass) -> Result<(), GateError> {
        Ok(())
    }
}

/// Keeps the highest passes in memory: for a resource that lives in this process and dies with it.
#[derive(Debug)]
pub struct MemoryGate {
    names: Mutex<HashMap<Name, Arc<AsyncMutex<Option<Pass>>>>>,
    most: usize,
}

impl Default for MemoryGate {
    fn default() -> Self {
        Self::for_at_most(100_000)
    }
}

impl MemoryGate {
    /// A gate for so many names at most; another one is turned away, since forgetting one would let the
    /// stale in.
    pub fn for_at_most(most: usize) -> Self {
        Self {
            names: Mutex::default(),
            most,
        }
    }

    fn place(&self, name: &Name) -> Result<Arc<AsyncMutex<Option<Pass>>>, GateError> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = names.get(name) {
            return Ok(Arc::clone(place));
        }
        if names.len() >= self.most {
            let most = self.most;
            return Err(GateError::Unavailable(format!(
                "this gate has {most} names already"
            )));
        }
        Ok(Arc::clone(names.entry(name.clone()).or_default()))
    }
}

impl Gate for MemoryGate {
    type Entered = OwnedMutexGuard<Option<Pass>>;

    async fn enter(&self, name: &Name, pass: &Pass) -> Result<Self::Entered, GateError> {
        let mut place = self.place(name)?.lock_owned().await;
        pass.after(place.as_ref())?;
        *place = Some(*pass);
        Ok(place)
    }
}

#[cfg(feature = "file")]
pub use on_disk::FileGate;

#[cfg(feature = "file")]
mod on_disk {
    use std::path::PathBuf;
    use std::time::Duration;

    use super::{Arc, AsyncMutex, Gate, GateError, MemoryGate, Name, OwnedMutexGuard, Pass};
    use crate::FenceError;
    use crate::file::Record;

    /// Keeps the highest passes in files of a directory: restarts forget nothing, and several processes of
    /// one machine may serve the same names.
    ///
    /// A new token waits for the disk on the thread that serves the request.
    #[derive(Debug)]
    pub struct FileGate {
        directory: PathBuf,
        /// The turns inside this process; its passes are not used.
        turns: MemoryGate,
    }

    impl FileGate {
        /// A gate whose records are in this directory, which must exist.
        pub fn new(directory: impl Into<PathBuf>) -> Self {
            Self {
                directory: directory.into(),
                turns: MemoryGate::default(),
            }
        }

        /// A file name for any lock name. Two very long names may share one: then they share a fence too,
        /// which refuses more, never less.
        fn record(&self, name: &Name) -> PathBuf {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            let encode = |byte: u8| match plain(byte) {
                true => char::from(byte).to_string(),
                false => format!("%{byte:02X}"),
            };
            let mut file: String = name.as_str().bytes().map(encode).collect();
            if file.len() > 200 {
                let hash = file.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
                });
                file.truncate(180);
                file = format!("{file}~{hash:016x}");
            }
            self.directory.join(format!("{file}.fence"))
        }
    }

    /// A turn at a [`FileGate`].
    #[derive(Debug)]
    pub struct Turn {
        _inside_this_process: OwnedMutexGuard<Option<Pass>>,
        _among_processes: Record,
    }

    impl Gate for FileGate {
        type Entered = Turn;

        async fn enter(&self, name: &Name, pass: &Pass) -> Result<Turn, GateError> {
            let place: Arc<AsyncMutex<Option<Pass>>> = self.turns.place(name)?;
            let turn = place.lock_owned().await;
            let record = Record::open(&self.record(name), Duration::ZERO);
            let mut record = record.map_err(meaning)?;
            record.raise(pass).map_err(meaning)?;
            Ok(Turn {
                _inside_this_process: turn,
                _among_processes: record,
            })
        }
    }

    fn meaning(error: FenceError<std::io::Error>) -> GateError {
        match error {
            FenceError::Refused(refusal) => GateError::Refused(refusal),
            FenceError::Store(error) => GateError::Unavailable(error.to_string()),
            other => GateError::Unavailable(other.to_string()),
        }
    }
}

//! An object in an object store with conditional put (S3, Google Cloud, Azure, in memory) behind a fence.
//!
//! The pass stands in the object's own metadata, so content and pass change in one put, and the put is
//! conditional on the version that was compared: nothing can come between. A store that cannot put
//! conditionally refuses the first write.
//!
//! What it lacks: a deleted object takes its fence along. Do not delete, write an empty object.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, GetOptions, ObjectStore, PutMode, PutOptions, UpdateVersion,
};

use crate::{Fence, FenceError, Pass};

/// The metadata that holds the pass.
pub const METADATA: &str = "lockkeeper-pass";

/// Each failed try means that somebody else has written, so this many are no accident.
const MOST_TRIES: usize = 1000;

/// An object behind a fence.
///
/// It remembers the version that it has written, so a holder that goes on writing needs one request per
/// write; the first write needs two.
#[derive(Debug)]
pub struct ObjectFence {
    store: Arc<dyn ObjectStore>,
    path: Path,
    known: Mutex<Option<Known>>,
}

/// An object as it was seen last: `None` stands for none at all.
#[derive(Debug, Clone)]
struct Known {
    pass: Option<Pass>,
    version: Option<UpdateVersion>,
}

impl ObjectFence {
    /// Puts a fence around an object, which need not exist yet. All writers must go through it.
    pub fn new(store: Arc<dyn ObjectStore>, path: impl Into<Path>) -> Self {
        Self {
            store,
            path: path.into(),
            known: Mutex::new(None),
        }
    }

    fn remember(&self, known: Option<Known>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }

    fn remembered(&self) -> Option<Known> {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    async fn look(&self) -> Result<Known, FenceError<Error>> {
        let head = GetOptions::new().with_head(true);
        let object = match self.store.get_opts(&self.path, head).await {
            Ok(object) => object,
            Err(Error::NotFound { .. }) => {
                let (pass, version) = (None, None);
                return Ok(Known { pass, version });
            }
            Err(error) => return Err(FenceError::Store(error)),
        };
        let text = object.attributes.get(&Attribute::Metadata(METADATA.into()));
        let pass = match text.map(|text| text.parse::<Pass>()) {
            Some(Err(_)) => {
                return Err(FenceError::unreadable(
                    text.map_or("", |text| text.as_ref()),
                ));
            }
            Some(Ok(pass)) => Some(pass),
            None => None,
        };
        let version = Some(UpdateVersion {
            e_tag: object.meta.e_tag,
            version: object.meta.version,
        });
        Ok(Known { pass, version })
    }

    /// One conditional put; `None` if somebody else has written since `known`.
    async fn put(&self, pass: &Pass, content: Bytes, known: Known) -> Result<Option<Known>, Error> {
        let mode = known.version.map_or(PutMode::Create, PutMode::Update);
        let mut attributes = Attributes::new();
        attributes.insert(
            Attribute::Metadata(METADATA.into()),
            pass.to_string().into(),
        );
        let options = PutOptions {
            mode,
            attributes,
            ..PutOptions::default()
        };
        match self
            .store
            .put_opts(&self.path, content.into(), options)
            .await
        {
            Ok(result) => Ok(Some(Known {
                pass: Some(*pass),
                version: Some(result.into()),
            })),
            Err(Error::Precondition { .. } | Error::AlreadyExists { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Fence for ObjectFence {
    type Value = Bytes;
    type Error = Error;

    async fn write(&self, pass: &Pass, value: &Bytes) -> Result<(), FenceError<Error>> {
        for _ in 0..MOST_TRIES {
            let known = match self.remembered() {
                Some(known) => known,
                None => self.look().await?,
            };
            // What is remembered may be old. It is then lower than the truth, and the put fails; but a
            // refusal by it is true for ever.
            pass.after(known.pass.as_ref())?;
            self.remember(None);
            let put = self.put(pass, value.clone(), known).await;
            if let Some(known) = put.map_err(FenceError::Store)? {
                self.remember(Some(known));
                return Ok(());
            }
        }
        Err(FenceError::Store(Error::Generic {
            store: "fence",
            source: "other writers have changed the object at every try".into(),
        }))
    }

    async fn highest(&self) -> Result<Option<Pass>, FenceError<Error>> {
        Ok(self.look().await?.pass)
    }
}

//! An object store in memory that takes its time: writers are threads of one process here, and instead of
//! being killed their calls are dropped halfway.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use bytes::Bytes;
use lockkeeper_fence::object::{METADATA, ObjectFence};
use lockkeeper_fence::{Fence, FenceError, Pass};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::throttle::{ThrottleConfig, ThrottledStore};
use object_store::{Attribute, Attributes, ObjectStore, ObjectStoreExt, PutOptions};

use super::{Seen, Store, text, writer_of};
use crate::history::Verdict;
use crate::writer::{compared, verdict};

/// The stores of this process by their names.
static STORES: LazyLock<Mutex<std::collections::HashMap<String, Arc<dyn ObjectStore>>>> =
    LazyLock::new(Mutex::default);

pub(crate) struct Fenced {
    store: Arc<dyn ObjectStore>,
    fence: ObjectFence,
}

fn store(name: &str) -> Arc<dyn ObjectStore> {
    let slow = || -> Arc<dyn ObjectStore> {
        let config = ThrottleConfig {
            wait_get_per_call: Duration::from_micros(300),
            wait_put_per_call: Duration::from_micros(300),
            ..ThrottleConfig::default()
        };
        Arc::new(ThrottledStore::new(InMemory::new(), config))
    };
    let mut stores = STORES.lock().unwrap();
    Arc::clone(stores.entry(name.to_owned()).or_insert_with(slow))
}

impl Store for Fenced {
    async fn open(target: &str) -> Result<Self, String> {
        let store = store(target);
        let fence = ObjectFence::new(Arc::clone(&store), "resource");
        Ok(Self { store, fence })
    }

    async fn write(&mut self, pass: &Pass, value: &str) -> Verdict {
        verdict(self.fence.write(pass, &Bytes::from(value.to_owned())).await)
    }

    async fn write_in_two_steps(&mut self, pass: &Pass, value: &str, pause: Duration) -> Verdict {
        let highest = self.fence.highest().await.unwrap();
        if let Some(refused) = compared(pass, highest, pause).await {
            return refused;
        }
        let mut attributes = Attributes::new();
        attributes.insert(
            Attribute::Metadata(METADATA.into()),
            pass.to_string().into(),
        );
        let options = PutOptions::from(attributes);
        let put = self
            .store
            .put_opts(&Path::from("resource"), value.to_owned().into(), options)
            .await;
        verdict(put.map_err(FenceError::Store))
    }

    async fn read(&mut self) -> Result<Seen, String> {
        let object = match self.store.get(&Path::from("resource")).await {
            Ok(object) => object,
            Err(object_store::Error::NotFound { .. }) => return Ok((None, None)),
            Err(error) => return Err(text(error)),
        };
        let pass = object.attributes.get(&Attribute::Metadata(METADATA.into()));
        let pass = pass.and_then(|pass| pass.parse().ok());
        let content = object.bytes().await.map_err(text)?;
        Ok((pass, writer_of(&String::from_utf8_lossy(&content))))
    }
}

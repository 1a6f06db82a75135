//! An object store in memory that takes a millisecond per request: what counts is how many there are.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_fence::Fence;
use lockkeeper_fence::object::ObjectFence;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::throttle::{ThrottleConfig, ThrottledStore};
use object_store::{ObjectStore, ObjectStoreExt};

use super::{Pair, pass, value};
use crate::Result;
use crate::figures::local::runtime;
use crate::place::Place;
use crate::report::Figure;

const PER_ROUND: u64 = 10;

pub(super) fn measure(_: &Place) -> Result<Vec<Figure>> {
    let request = Duration::from_millis(1);
    let config = ThrottleConfig {
        wait_get_per_call: request,
        wait_put_per_call: request,
        ..ThrottleConfig::default()
    };
    let store: Arc<dyn ObjectStore> = Arc::new(ThrottledStore::new(InMemory::new(), config));
    let path = Path::from("plain");
    runtime()?.block_on(async {
        let held = ObjectFence::new(Arc::clone(&store), "held");
        let one_holder = Pair::new("an object, one holder writes on", PER_ROUND).measure(
            async |n| Ok(store.put(&path, value(n).into()).await.map(drop)?),
            async |n| Ok(held.write(&pass(1)?, &value(n).into()).await?),
        );
        let one_holder = one_holder.await?;
        let new_holders =
            Pair::new("an object, every write a new holder's", PER_ROUND).without_target();
        let new_holders = new_holders.measure(
            async |n| Ok(store.put(&path, value(n).into()).await.map(drop)?),
            async |n| {
                let fence = ObjectFence::new(Arc::clone(&store), "taken");
                Ok(fence.write(&pass(n)?, &value(n).into()).await?)
            },
        );
        Ok(vec![one_holder, new_holders.await?])
    })
}

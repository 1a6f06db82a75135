//! What users ask for, each a thin reading of the same list of claims.

mod barrier;
mod election;
mod gathering;
mod latch;
mod lock;
mod multi_lock;
mod owner;
mod rw_lock;
mod semaphore;

pub use barrier::Barrier;
pub use election::{Election, Leader, Leadership};
pub use latch::Latch;
pub use lock::Lock;
pub use multi_lock::{MultiGuard, MultiLock};
pub use owner::Owner;
pub use rw_lock::RwLock;
pub use semaphore::Semaphore;

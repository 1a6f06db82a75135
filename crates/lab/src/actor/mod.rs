//! The clients of a story: processes of their own, which do what they are told and say when they did it.
//!
//! [`Client`] is one as the story sees it; [`play`] is what its process does.

mod client;
mod deeds;
mod hands;
mod player;

pub use client::{Client, redis, sql};
pub use deeds::{Answer, Ask, Deed, Shown, ZooKeeperVerb};
pub(crate) use hands::Hands;
pub use player::play;

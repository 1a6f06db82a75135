//! The resource's side of a distributed lock.
//!
//! A lock alone cannot stop a holder that was paused, cut off or simply slow: only the resource can,
//! by refusing what comes with an older [`Token`] than it has already seen. This crate holds the
//! nouns that lock and resource share, and knows no lock engine at all.
//!
//! ```
//! use lockkeeper_fence::{Mode, Name, Sequencer, Token};
//!
//! let sequencer = Sequencer::new(Name::new("orders/42")?, Mode::Exclusive, Token::new(33, 0)?);
//! let text = sequencer.to_string();
//! assert_eq!(text, "lk1:x:8448:orders/42");
//! assert_eq!(text.parse::<Sequencer>()?, sequencer);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod mode;
mod name;
mod sequencer;
mod token;

pub use mode::{Mode, ModeError};
pub use name::{Name, NameError};
pub use sequencer::{Sequencer, SequencerError};
pub use token::{Token, TokenError};

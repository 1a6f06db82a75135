//! From a URL to a backend: the one place that knows all schemes.

use std::sync::Arc;

use crate::backend::Backend;
#[cfg(feature = "local")]
use crate::backends::local;
use crate::backends::memory::Memory;
use crate::error::Error;
use crate::lifecycle::deadline::Clock;

/// Opens the backend that the URL names.
pub(crate) fn backend(url: &str, clock: &Clock) -> Result<Arc<dyn Backend>, Error> {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme);
    match scheme {
        Some("memory") if url == "memory:" => Ok(Memory::new(clock.clone()).backend()),
        Some("memory") => Err(Error::invalid(
            "memory: takes no settings; write just memory:",
        )),
        #[cfg(feature = "local")]
        Some("local") => local::connect(&local::Config::from_url(url)?, clock.clone()),
        Some(other) => Err(Error::invalid(format!(
            "{other}: is no engine that this build knows; it knows {KNOWN}"
        ))),
        None => Err(Error::invalid(format!(
            "an engine's URL is needed, one of {KNOWN}"
        ))),
    }
}

const KNOWN: &str = if cfg!(feature = "local") {
    "local: and memory:"
} else {
    "memory:"
};

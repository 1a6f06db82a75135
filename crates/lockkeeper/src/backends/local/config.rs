//! Where the directory is: from the URL `local:` or `local:/path`, or from a program.

use std::path::{Path, PathBuf};

use crate::error::Error;

/// Where the locks of this machine live.
#[derive(Debug, Clone)]
pub struct Config {
    pub(super) path: PathBuf,
    pub(super) boot: Option<String>,
}

impl Config {
    /// From `local:` (the user's own directory) or `local:/absolute/path`.
    ///
    /// The user's own directory is `$XDG_STATE_HOME/lockkeeper`, else `~/.local/state/lockkeeper`. It is
    /// not the runtime directory: a cron job has no `$XDG_RUNTIME_DIR` and would silently use
    /// another directory than the same user's shell.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the text is anything else; there are no settings.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let Some(path) = url.strip_prefix("local:") else {
            return Err(Error::invalid(format_args!(
                "{url:?} is no URL of this backend: local: or local:/path was expected"
            )));
        };
        let fault = match path {
            "" => return own_directory().map(Self::at_checked),
            _ if path.starts_with('~') => "~ is not expanded here: write the whole path",
            _ if path.starts_with("//") => "it names no host: write local:/path with one slash",
            _ if path.contains(['?', '#']) => {
                "local: has no settings: leave out all from ? or # on"
            }
            _ if path.contains('\0') => "a path has no zero byte: leave it out",
            _ if !path.starts_with('/') => "the path must be absolute: write local:/path",
            _ => return Ok(Self::at_checked(PathBuf::from(path))),
        };
        Err(Error::invalid(format_args!(
            "the URL {url:?} is wrong: {fault}"
        )))
    }

    /// The directory at this absolute path.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the path is not absolute.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        if !path.is_absolute() {
            return Err(Error::invalid(format_args!(
                "the path {path:?} is not absolute: it would mean another directory to each program"
            )));
        }
        Ok(Self::at_checked(path))
    }

    /// The directory's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// As if the machine had been started under this id: for tests of what a reboot does.
    #[doc(hidden)]
    pub fn as_if_booted(mut self, boot: &str) -> Self {
        self.boot = Some(boot.into());
        self
    }

    fn at_checked(path: PathBuf) -> Self {
        Self { path, boot: None }
    }
}

fn own_directory() -> Result<PathBuf, Error> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    // A relative one is to be ignored, says the XDG specification.
    let state = state.filter(|path| path.is_absolute());
    let home = || std::env::home_dir().filter(|path| path.is_absolute());
    state
        .or_else(|| home().map(|home| home.join(".local/state")))
        .map(|state| state.join("lockkeeper"))
        .ok_or_else(|| {
            Error::invalid(
                "local: has no place to live, as neither $XDG_STATE_HOME nor $HOME is set: set one or write local:/path",
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_paths_without_settings() {
        assert_eq!(
            Config::from_url("local:/a/b").unwrap().path(),
            Path::new("/a/b")
        );
        let own = Config::from_url("local:").unwrap();
        assert!(own.path().is_absolute() && own.path().ends_with("lockkeeper"));
        for bad in [
            "locall:/a",
            "local",
            "local:a/b",
            "local:./a",
            "local:~/a",
            "local:///a",
            "local://host/a",
            "local:/a?lease=3",
            "local:/a#b",
            "local:/a\0b",
        ] {
            let error = Config::from_url(bad).unwrap_err();
            assert!(matches!(error, Error::Invalid { .. }), "{bad}: {error}");
        }
        assert!(Config::at("a/b").is_err());
    }
}

//! Once-only by a unique key: whoever inserts the key does the work, everybody else gets its result.

use super::session::{Dialect, Session, SqlValue};

/// What came of a thing that is done at most once.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Once {
    /// This call has done it.
    First(String),
    /// It had been done before; this is what came of it then.
    Remembered(String),
    /// Somebody began and never told the end: it may have been done or not. Only outside of a
    /// transaction.
    Unfinished,
}

/// Why a once-only thing was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError<S, B> {
    /// The key is empty or longer than 256 bytes.
    #[error("a once-only key has 1 to 256 bytes, this one has {bytes}")]
    Key {
        /// Its length.
        bytes: usize,
    },
    /// The database failed. Roll back; calling again with the same key is safe.
    #[error(
        "the database failed around a once-only thing; roll back, then call again with the same key"
    )]
    Store(#[source] S),
    /// The body failed. Roll back, and the key is free again.
    #[error("the body of a once-only thing failed; roll back to make it possible again")]
    Body(#[source] B),
}

/// Runs the body at most once per key, ever, and remembers its result.
///
/// **In a transaction** the key, what the body writes through the same session and the result become true
/// together: exactly once, whatever crashes. A second caller waits for the first one's commit and gets
/// its result.
///
/// **Without a transaction** the key is written first, for bodies that act outside of the database: at most
/// once. Who dies in between leaves [`Once::Unfinished`].
///
/// # Errors
/// See [`OnceError`].
///
/// # Cancel safety
/// In a transaction: roll back. Without: as if the process had died there.
pub async fn once<S: Session, B>(
    session: &mut S,
    key: &str,
    body: impl AsyncFnOnce(&mut S) -> Result<String, B>,
) -> Result<Once, OnceError<S::Error, B>> {
    if key.is_empty() || key.len() > 256 {
        return Err(OnceError::Key { bytes: key.len() });
    }
    let name = SqlValue::Bytes(key.as_bytes().to_vec());
    if begin(session, &name).await.map_err(OnceError::Store)? == Begun::Before {
        return remembered(session, name).await.map_err(OnceError::Store);
    }
    let result = body(session).await.map_err(OnceError::Body)?;
    let values = [result.clone().into(), name];
    let text = "UPDATE lockkeeper_once SET result = ? WHERE name = ?";
    session
        .change(text, &values)
        .await
        .map_err(OnceError::Store)?;
    Ok(Once::First(result))
}

#[derive(Debug, PartialEq, Eq)]
enum Begun {
    Now,
    Before,
}

async fn begin<S: Session>(session: &mut S, name: &SqlValue) -> Result<Begun, S::Error> {
    let text = match session.dialect() {
        Dialect::MySql => "INSERT IGNORE INTO lockkeeper_once (name) VALUES (?)",
        Dialect::Postgres | Dialect::Sqlite => {
            "INSERT INTO lockkeeper_once (name) VALUES (?) ON CONFLICT (name) DO NOTHING"
        }
    };
    match session.change(text, std::slice::from_ref(name)).await? {
        0 => Ok(Begun::Before),
        _ => Ok(Begun::Now),
    }
}

async fn remembered<S: Session>(session: &mut S, name: SqlValue) -> Result<Once, S::Error> {
    let newest = session.dialect().newest();
    let text = format!("SELECT result FROM lockkeeper_once WHERE name = ?{newest}");
    let row = session.row(&text, &[name]).await?;
    let result = row.and_then(|row| Some(row.first()?.as_text()?.to_owned()));
    Ok(result.map_or(Once::Unfinished, Once::Remembered))
}

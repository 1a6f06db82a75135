//! Making the tables, and sweeping them.

use tokio_postgres::Client;

use super::client::{Owned, SETTINGS, open};
use super::config::Config;
use super::doctor;
use super::faults::{Fault, sort};
use crate::Name;
use crate::backends::sql::key;
use crate::error::Error;
use futures_util::StreamExt;

/// The statements that make the tables, and what a user of them needs to be granted.
pub fn script(config: &Config) -> String {
    let rights = include_str!("sql/rights.sql");
    let (schema, user) = (&config.schema, "THE_USER");
    let rights = rights.replace("@user", user).replace("@schema", schema);
    let script = format!("{}\n{rights}", include_str!("sql/schema.sql"));
    config.statement(&script)
}

/// Makes the tables where they are missing, and checks those that are there.
///
/// # Errors
/// [`Error::Denied`] when this user may not make them, [`Error::Refused`] when what is there is of another version
/// or mode.
///
/// # Cancel safety
/// Cancel safe: the tables are made in one transaction.
pub async fn init(config: &Config) -> Result<(), Error> {
    let (client, mut messages) = open(config, SETTINGS).await?;
    let _driver = Owned::spawn(async move { while let Some(Ok(_)) = messages.next().await {} });
    doctor::examine(&client, config).await?;
    match doctor::check_tables(&client, config).await {
        // Also where all seems well: one of them may be missing.
        Ok(()) | Err(Fault::NoTables(_)) => make(&client, config).await?,
        Err(fault) => return Err(fault.into()),
    }
    Ok(doctor::check_tables(&client, config).await?)
}

/// Makes the tables in one transaction. Of several who do so at once, one does it.
pub(super) async fn make(client: &Client, config: &Config) -> Result<(), Fault> {
    let turn = Name::new("making the tables").map_err(|error| Fault::Told(error.into()))?;
    let turn = key::of(&config.tables(), &turn);
    let script = config.statement(include_str!("sql/schema.sql"));
    // Not the sessions' usual isolation: whoever had to wait must see what the others made.
    let whole = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock({turn}); {script} COMMIT"
    );
    let made = client.batch_execute(&whole).await;
    if made.is_err() {
        let _nothing_to_undo = client.batch_execute("ROLLBACK").await;
    }
    made.map_err(|error| sort(error, "making the tables"))
}

//! SQL: one lasting connection per server, statements as text.

use std::collections::HashMap;

use mysql_async::prelude::Queryable;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::Result;
use crate::actor::deeds::Answer;

/// One connection per URL.
#[derive(Default)]
pub(super) struct Connections {
    open: HashMap<String, Connection>,
}

enum Connection {
    Postgres(tokio_postgres::Client),
    Mysql(Box<mysql_async::Conn>),
}

impl Connections {
    async fn to(&mut self, url: &str) -> Result<&mut Connection> {
        if !self.open.contains_key(url) {
            self.open.insert(url.to_owned(), connect(url).await?);
        }
        self.open.get_mut(url).ok_or_else(|| "not connected".into())
    }

    /// The first column of the first row; else how many rows were changed; else nothing.
    pub(super) async fn run(&mut self, url: &str, statement: &str) -> Result<Answer> {
        let ran = match self.to(url).await? {
            Connection::Postgres(client) => on_postgres(client, statement).await,
            Connection::Mysql(connection) => on_mysql(connection, statement).await,
        };
        if matches!(ran, Ok(Answer::Unknown(_))) {
            self.open.remove(url);
        }
        ran
    }
}

async fn connect(url: &str) -> Result<Connection> {
    if url.starts_with("mysql://") {
        let options = mysql_async::Opts::from_url(url)?;
        let connection = mysql_async::Conn::new(options).await?;
        return Ok(Connection::Mysql(Box::new(connection)));
    }
    let (client, driver) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(driver);
    Ok(Connection::Postgres(client))
}

async fn on_postgres(client: &tokio_postgres::Client, statement: &str) -> Result<Answer> {
    let messages = match client.simple_query(statement).await {
        Ok(messages) => messages,
        Err(error) => return Ok(postgres_trouble(&error)),
    };
    let mut changed = 0;
    for message in &messages {
        match message {
            SimpleQueryMessage::Row(row) => {
                return Ok(row.get(0).map_or(Answer::Nothing, text));
            }
            SimpleQueryMessage::CommandComplete(rows) => changed = *rows,
            _ => {}
        }
    }
    Ok(rows(changed))
}

fn postgres_trouble(error: &tokio_postgres::Error) -> Answer {
    match error.as_db_error() {
        Some(said) => Answer::Failed(said.message().to_owned()),
        None => Answer::Unknown(error.to_string()),
    }
}

async fn on_mysql(connection: &mut mysql_async::Conn, statement: &str) -> Result<Answer> {
    let row: mysql_async::Result<Option<mysql_async::Row>> =
        connection.query_first(statement).await;
    match row {
        Ok(Some(row)) => {
            let first: Option<Option<String>> = row.get_opt(0).transpose()?;
            Ok(first
                .flatten()
                .map_or(Answer::Nothing, |found| text(&found)))
        }
        Ok(None) => Ok(rows(connection.affected_rows())),
        Err(mysql_async::Error::Server(said)) => Ok(Answer::Failed(said.message)),
        Err(error) => Ok(Answer::Unknown(error.to_string())),
    }
}

fn text(found: &str) -> Answer {
    Answer::Text(found.to_owned())
}

fn rows(changed: u64) -> Answer {
    match changed {
        0 => Answer::Nothing,
        changed => Answer::Text(changed.to_string()),
    }
}

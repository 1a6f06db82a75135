//! A change of one row that the database itself decides about, in one statement: behind a fence, under
//! a condition, at a version, from a status.

use super::session::{Session, SqlValue};
use super::side::{claim, pass_in, token};
use super::text::{GUARD_CONDITION, GUARD_SET};
use crate::{FenceError, Pass};

/// A change of one row, found by its key.
///
/// Table, columns and fragments of SQL are text of the program's own: never put into them what came from
/// outside, that is what arguments (`?`) are for.
///
/// ```
/// use lockkeeper_fence::sql::Change;
///
/// let sell = Change::of("stock", "id", 7)
///     .set("remaining = remaining - ?", [2])
///     .only_if("remaining >= ?", [2]);
/// assert_eq!(
///     sell.text(),
///     "UPDATE stock SET remaining = remaining - ? WHERE id = ? AND (remaining >= ?)",
/// );
/// ```
#[derive(Debug, Clone)]
pub struct Change {
    table: &'static str,
    key: &'static str,
    id: SqlValue,
    set: Clause,
    condition: Clause,
    by: Option<(&'static str, String)>,
}

/// Fragments of SQL and their arguments, in the same order.
#[derive(Debug, Clone, Default)]
struct Clause {
    parts: Vec<String>,
    values: Vec<SqlValue>,
}

impl Clause {
    fn add(&mut self, part: impl Into<String>, values: impl IntoIterator<Item = SqlValue>) {
        self.parts.push(part.into());
        self.values.extend(values);
    }
}

/// How a fenced change ended; a refusal is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Update {
    /// The row is changed.
    Written,
    /// The fence admits the pass, but the condition did not hold.
    NotMet,
    /// There is no such row.
    NoRow,
}

/// Who won.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// This change did.
    Won,
    /// Another one did, or the condition never held: nothing was changed.
    Lost(Winner),
    /// There is no such row.
    NoRow,
}

/// What the row says now about the change that won.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Winner {
    /// The version or the status that the row has; nothing for a plain condition.
    pub now: SqlValue,
    /// Who wrote it, if [`Change::by`] says in which column that is.
    pub by: Option<String>,
}

impl Change {
    /// A change of the row of `table` whose column `key` is `id`.
    pub fn of(table: &'static str, key: &'static str, id: impl Into<SqlValue>) -> Self {
        Self {
            table,
            key,
            id: id.into(),
            set: Clause::default(),
            condition: Clause::default(),
            by: None,
        }
    }

    /// What is assigned, like `balance = balance - ?`.
    #[must_use]
    pub fn set<V: Into<SqlValue>>(
        mut self,
        assignment: &'static str,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        self.set.add(assignment, values.into_iter().map(Into::into));
        self
    }

    /// What must hold, like `balance >= ?`.
    #[must_use]
    pub fn only_if<V: Into<SqlValue>>(
        mut self,
        condition: &'static str,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        let values = values.into_iter().map(Into::into);
        self.condition.add(format!("({condition})"), values);
        self
    }

    /// Notes in a column who made the change. With a `who` of its own per attempt, repeating a change whose
    /// outcome is unknown tells that it was this one who won.
    #[must_use]
    pub fn by(mut self, column: &'static str, who: impl Into<String>) -> Self {
        let who = who.into();
        self.set.add(format!("{column} = ?"), [who.clone().into()]);
        self.by = Some((column, who));
        self
    }

    /// The statement, for another client; its arguments are those of `set`, the key, those of `only_if`.
    pub fn text(&self) -> String {
        let conditions: String = self
            .condition
            .parts
            .iter()
            .flat_map(|part| [" AND ", part])
            .collect();
        let (table, key, set) = (self.table, self.key, self.set.parts.join(", "));
        format!("UPDATE {table} SET {set} WHERE {key} = ?{conditions}")
    }

    fn values(&self) -> Vec<SqlValue> {
        let key = std::iter::once(&self.id);
        let values = self.set.values.iter().chain(key);
        values.chain(&self.condition.values).cloned().collect()
    }

    /// **Conditional update**: changes the row if [`Change::only_if`] holds.
    ///
    /// # Errors
    /// When the database failed: whether the change stands is unknown.
    ///
    /// # Cancel safety
    /// Dropping it leaves the outcome unknown.
    pub async fn run<S: Session>(&self, session: &mut S) -> Result<Outcome, S::Error> {
        self.decide(session, "NULL").await
    }

    /// **Version column**: changes the row if its `column` still is `version`, and counts it up. Whoever
    /// loses reads the row anew and decides again.
    ///
    /// # Errors
    /// When the database failed: whether the change stands is unknown.
    ///
    /// # Cancel safety
    /// Dropping it leaves the outcome unknown.
    pub async fn at_version<S: Session>(
        mut self,
        session: &mut S,
        column: &'static str,
        version: i64,
    ) -> Result<Outcome, S::Error> {
        self.set.add(format!("{column} = {column} + 1"), []);
        self.condition
            .add(format!("{column} = ?"), [version.into()]);
        self.decide(session, column).await
    }

    /// **Status transition**: changes the row if its `column` still is `from`, and makes it `to`.
    ///
    /// # Errors
    /// When the database failed: whether the change stands is unknown.
    ///
    /// # Cancel safety
    /// Dropping it leaves the outcome unknown.
    pub async fn transition<S: Session>(
        mut self,
        session: &mut S,
        column: &'static str,
        (from, to): (&str, &str),
    ) -> Result<Outcome, S::Error> {
        self.set.add(format!("{column} = ?"), [to.into()]);
        self.condition.add(format!("{column} = ?"), [from.into()]);
        self.decide(session, column).await
    }

    /// **Fence**: changes the row if its guard columns admit the pass, and raises them. The table has the
    /// two columns of [`super::GUARD_COLUMNS`].
    ///
    /// One statement: also right without a transaction, and inside one.
    ///
    /// # Errors
    /// [`FenceError::Refused`] with both numbers; [`FenceError::Store`] when the database failed.
    ///
    /// # Cancel safety
    /// Dropping it leaves the outcome unknown.
    pub async fn fenced<S: Session>(
        mut self,
        session: &mut S,
        pass: &Pass,
    ) -> Result<Update, FenceError<S::Error>> {
        self.set.add(GUARD_SET, [token(pass), claim(pass)]);
        let values = [token(pass), token(pass), claim(pass)];
        self.condition.add(GUARD_CONDITION, values);
        let matched = session.change(&self.text(), &self.values()).await;
        if matched.map_err(FenceError::Store)? > 0 {
            return Ok(Update::Written);
        }
        // It is decided; the row tells why. Tokens only rise, so a refusal stays one.
        let row = self.look(session, "fence_token, fence_claim").await;
        let Some(row) = row.map_err(FenceError::Store)? else {
            return Ok(Update::NoRow);
        };
        pass.after(pass_in(&row)?.as_ref())?;
        Ok(Update::NotMet)
    }

    async fn decide<S: Session>(&self, session: &mut S, now: &str) -> Result<Outcome, S::Error> {
        if session.change(&self.text(), &self.values()).await? > 0 {
            return Ok(Outcome::Won);
        }
        let by = self.by.as_ref().map_or("NULL", |(column, _)| column);
        let Some(row) = self.look(session, &format!("{now}, {by}")).await? else {
            return Ok(Outcome::NoRow);
        };
        let by = row.get(1).and_then(SqlValue::as_text).map(str::to_owned);
        if let (Some((_, me)), Some(by)) = (&self.by, &by)
            && me == by
        {
            return Ok(Outcome::Won);
        }
        let now = row.into_iter().next().unwrap_or(SqlValue::Null);
        Ok(Outcome::Lost(Winner { now, by }))
    }

    async fn look<S: Session>(
        &self,
        session: &mut S,
        columns: &str,
    ) -> Result<Option<Vec<SqlValue>>, S::Error> {
        let (table, key, newest) = (self.table, self.key, session.dialect().newest());
        let text = format!("SELECT {columns} FROM {table} WHERE {key} = ?{newest}");
        session.row(&text, std::slice::from_ref(&self.id)).await
    }
}

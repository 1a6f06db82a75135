//! Statements and their values. One alone is prepared, and its values are bound. Several travel as text in one packet, which
//! bound values do not allow: there each is written as a number or as hexadecimal digits. No text of anybody's ever
//! stands in a statement.

use std::fmt::Write;

/// A value in a statement.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Number(u64),
    /// Exactly these bytes.
    Bytes(&'a [u8]),
    /// Text for people.
    Text(&'a str),
    /// What the connection remembers under this name; not for a prepared statement's values.
    Variable(&'static str),
}

/// The statements without their comments, with the values in place of the question marks.
pub(super) fn fill(template: &str, values: &[Value<'_>]) -> String {
    let mut filled = String::with_capacity(template.len() + 64 * values.len());
    let mut values = values.iter();
    for line in lines(template) {
        for (place, piece) in line.split('?').enumerate() {
            if place > 0 {
                let value = values.next();
                debug_assert!(value.is_some(), "a value is missing in {template}");
                push(&mut filled, value.copied().unwrap_or(Value::Bytes(&[])));
            }
            filled.push_str(piece);
        }
        filled.push('\n');
    }
    debug_assert!(
        values.next().is_none(),
        "a value is left over in {template}"
    );
    filled
}

/// The statement as it is prepared: its question marks stand for values that are bound.
pub(super) fn without_comments(template: &str) -> String {
    lines(template).collect::<Vec<_>>().join("\n")
}

fn lines(template: &str) -> impl Iterator<Item = &str> {
    let lines = template.lines();
    lines.filter(|line| !line.trim_start().starts_with("--"))
}

/// As it is bound to a prepared statement.
impl From<Value<'_>> for mysql_async::Value {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Number(number) => Self::UInt(number),
            Value::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
            Value::Text(text) => Self::Bytes(text.as_bytes().to_vec()),
            Value::Variable(_) => Self::NULL,
        }
    }
}

fn push(filled: &mut String, value: Value<'_>) {
    let (introducer, bytes) = match value {
        Value::Number(number) => {
            let _to_a_string = write!(filled, "{number}");
            return;
        }
        Value::Variable(name) => {
            filled.push('@');
            filled.push_str(name);
            return;
        }
        Value::Bytes(bytes) => ("x'", bytes),
        Value::Text(text) => ("_utf8mb4 x'", text.as_bytes()),
    };
    filled.push_str(introducer);
    for byte in bytes {
        let _to_a_string = write!(filled, "{byte:02x}");
    }
    filled.push('\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    // security S7
    #[test]
    fn no_text_of_anybodys_stands_in_a_statement() {
        let template = "-- what?\nSELECT ?, ?,\n  ?";
        let values = [
            Value::Number(7),
            Value::Bytes(b"'; --\\"),
            Value::Text("?é"),
        ];
        let filled = fill(template, &values);
        assert_eq!(filled, "SELECT 7, x'273b202d2d5c',\n  _utf8mb4 x'3fc3a9'\n");
    }
}

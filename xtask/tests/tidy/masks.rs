//! Rust text with comments, strings or test modules blanked out. Lines and columns stay, so that a
//! rule can search plainly and still say where.

/// Blanks comments and documentation; strings stay, except for those given to `#[doc]`.
pub(crate) fn without_comments(text: &str) -> String {
    mask(text, false)
}

/// Blanks comments and the contents of strings.
pub(crate) fn code_only(text: &str) -> String {
    mask(text, true)
}

/// Blanks the test modules of `text`, found in it, in a text of the same layout.
pub(crate) fn without_tests(text: &str, same_layout: &str) -> String {
    let code: Vec<char> = code_only(text).chars().collect();
    let mut output: Vec<char> = same_layout.chars().collect();
    let marker: Vec<char> = "#[cfg(test)]".chars().collect();
    let mut at = 0;
    while at + marker.len() <= code.len() {
        if code[at..at + marker.len()] != marker[..] {
            at += 1;
            continue;
        }
        let end = end_of_item(&code, at);
        output[at..end]
            .iter_mut()
            .filter(|c| **c != '\n')
            .for_each(|c| *c = ' ');
        at = end;
    }
    output.into_iter().collect()
}

/// The line of a position, from one.
pub(crate) fn line_of(text: &str, byte: usize) -> usize {
    text[..byte].matches('\n').count() + 1
}

/// The end of the item that starts here: its closing brace, or the semicolon if it has no body.
fn end_of_item(code: &[char], start: usize) -> usize {
    let mut depth = 0_usize;
    for (index, character) in code.iter().enumerate().skip(start) {
        match character {
            '{' => depth += 1,
            '}' if depth <= 1 => return index + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return index + 1,
            _ => {}
        }
    }
    code.len()
}

fn mask(text: &str, strings_too: bool) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut output = characters.clone();
    let mut at = 0;
    while at < characters.len() {
        let (end, blank) = match token(&characters, at) {
            Token::Comment(end) => (end, true),
            Token::Text(end) => (end, strings_too),
            Token::Other => (at + 1, false),
        };
        if blank {
            output[at..end]
                .iter_mut()
                .filter(|c| **c != '\n')
                .for_each(|c| *c = ' ');
        }
        at = end;
    }
    output.into_iter().collect()
}

/// What begins at a position, and where it ends.
enum Token {
    Comment(usize),
    Text(usize),
    Other,
}

fn token(all: &[char], at: usize) -> Token {
    let next = all.get(at + 1).copied();
    match all[at] {
        '/' if next == Some('/') => Token::Comment(find(all, at, |c| c == '\n')),
        '/' if next == Some('*') => Token::Comment(end_of_block(all, at)),
        '"' => Token::Text(end_of_string(all, at + 1)),
        'r' if !continues_word(all, at) => raw_string(all, at).map_or(Token::Other, Token::Text),
        '\'' => end_of_character(all, at).map_or(Token::Other, Token::Text),
        _ => Token::Other,
    }
}

fn find(all: &[char], from: usize, wanted: impl Fn(char) -> bool) -> usize {
    all[from..]
        .iter()
        .position(|c| wanted(*c))
        .map_or(all.len(), |offset| from + offset)
}

fn end_of_block(all: &[char], start: usize) -> usize {
    let (mut depth, mut at) = (0_usize, start);
    while at < all.len() {
        match (all[at], all.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) if depth == 1 => return at + 2,
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    all.len()
}

fn end_of_string(all: &[char], mut at: usize) -> usize {
    while at < all.len() {
        match all[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    all.len()
}

/// `r"…"` and `r#"…"#`; the `b` of a byte string before it does no harm.
fn raw_string(all: &[char], start: usize) -> Option<usize> {
    let quote = find(all, start + 1, |c| c != '#');
    if all.get(quote) != Some(&'"') {
        return None;
    }
    let hashes = quote - start - 1;
    let closes = |at: usize| all[at] == '"' && (1..=hashes).all(|n| all.get(at + n) == Some(&'#'));
    let close = (quote + 1..all.len()).find(|at| closes(*at))?;
    Some(close + 1 + hashes)
}

/// A character literal; a lifetime is none.
fn end_of_character(all: &[char], start: usize) -> Option<usize> {
    if all.get(start + 1) == Some(&'\\') {
        return Some(
            find(all, start + 3, |c| c == '\'')
                .saturating_add(1)
                .min(all.len()),
        );
    }
    (all.get(start + 2) == Some(&'\'')).then_some(start + 3)
}

fn continues_word(all: &[char], at: usize) -> bool {
    at > 0 && (all[at - 1].is_alphanumeric() || all[at - 1] == '_') && all[at - 1] != 'b'
}

#[test]
fn comments_and_strings_are_told_apart() {
    let text =
        "let a = \"// not a comment\"; // todo!()\nlet b = 'x'; /* a /* b */ c */ let c: &'a str;";
    let seen = without_comments(text);
    assert!(seen.contains("// not a comment") && !seen.contains("todo"));
    assert!(seen.contains("let c: &'a str;") && !seen.contains("b */"));
    assert_eq!(seen.len(), text.len());
    let bare = code_only("f(r#\"a \" todo!( b\"#, '\"', \"\\\"x\"); g()");
    assert!(!bare.contains("todo") && !bare.contains('x') && bare.contains("g()"));
}

#[test]
fn test_modules_disappear_and_lines_stay() {
    let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { \"}\"; }\n}\nfn c() {}\n";
    let seen = without_tests(text, text);
    assert!(seen.contains("fn a") && seen.contains("fn c") && !seen.contains("fn b"));
    assert_eq!(line_of(&seen, seen.find("fn c").unwrap()), 6);
}

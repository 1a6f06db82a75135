//! Writes what was told to a directory: the page in both languages, every picture, every history.

use std::fs;
use std::path::Path;

use crate::Result;
use crate::history::to_lines;
use crate::picture::{Language, Words, page, svg};
use crate::told::{Played, Told};

/// Writes everything; the directory is made if it is not there.
///
/// # Errors
/// When a file cannot be written.
pub fn write(directory: &Path, told: &[Told]) -> Result<()> {
    fs::create_dir_all(directory)?;
    for Told { scenario, parts } in told {
        for played in parts {
            let stem = format!("{}.{}", scenario.name, played.part.name);
            write_part(directory, &stem, scenario.title.en, played)?;
        }
    }
    let pages = [
        ("index.html", Language::English),
        ("index.zh-CN.html", Language::Chinese),
    ];
    for (name, language) in pages {
        fs::write(directory.join(name), page(told, language))?;
    }
    Ok(())
}

fn write_part(directory: &Path, stem: &str, title: &str, played: &Played) -> Result<()> {
    let words = Words::new(Language::English, title);
    let picture = svg(&played.history, &words);
    fs::write(directory.join(format!("{stem}.svg")), picture)?;
    let lines = to_lines(&played.history)?;
    fs::write(directory.join(format!("{stem}.jsonl")), lines)?;
    Ok(())
}

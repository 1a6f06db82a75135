//! The page in a real browser: it holds what was told, runs nothing that others wrote, and can be read.

mod chromium;
mod stories;

use chromium::Chromium;
use lockkeeper_lab::picture::{Language, page};

const LANGUAGES: [Language; 2] = [Language::English, Language::Chinese];

// proves: N3
#[test]
fn the_page_holds_every_part() {
    let told = stories::all();
    let dom = Chromium::new().dom(&page(&told, Language::English));
    let parts: Vec<_> = told.iter().flat_map(|told| &told.parts).collect();
    assert_eq!(dom.matches("<article id=").count(), parts.len());
    assert_eq!(dom.matches("<svg ").count(), parts.len());
    assert_eq!(dom.matches("<pre ").count(), parts.len());
    for id in [
        "pause-after-check",
        "pause-after-check-naive",
        "pause-after-check-fence",
        "crowd-fence",
    ] {
        assert!(dom.contains(&format!(" id=\"{id}\"")), "no element {id}");
        assert!(dom.contains(&format!("href=\"#{id}\"")), "no link to {id}");
    }
    for words in [
        ">harm seen</span>",
        ">harm prevented</span>",
        "client A overwrote what client B had written",
        "= 0 refused: token 33 is older than 34",
        "class=\"harm\"",
        "class=\"together\"",
        "two believe at once",
        "paused 1380 ms",
        "orders/4711 · token 34",
    ] {
        assert!(dom.contains(words), "the page does not say {words:?}");
    }
}

/// Names are hostile text: security test S10.
#[test]
fn what_others_wrote_does_not_act() {
    let page = page(&stories::all(), Language::English);
    let dom = Chromium::new().dom(&page);
    // The text is there to be read …
    assert!(dom.contains("&lt;script&gt;document.title="));
    // … and has become no element.
    for element in ["<script", "<img", "onerror=\""] {
        assert!(!dom.contains(element), "{element} got into the page");
    }
    assert!(dom.contains("<title>lockkeeper lab: what really happened</title>"));
    assert!(page.contains("default-src 'none'; style-src 'unsafe-inline'; img-src data:"));
    assert!(
        !page.contains("http://")
            || page.matches("http://").count()
                == page.matches("http://www.w3.org/2000/svg").count()
    );
    assert!(!page.contains("https://"), "the page loads something");
}

#[test]
fn the_page_can_be_read_on_a_small_screen() {
    let chromium = Chromium::new();
    for language in LANGUAGES {
        let page = page(&stories::all(), language);
        let quoted = page.replace('&', "&amp;").replace('"', "&quot;");
        let script = include_str!("measure.js");
        let around = format!(
            "<!DOCTYPE html><meta charset=\"utf-8\"><script>{script}</script><body>\
             <iframe style=\"width:360px;height:4000px;border:0\" srcdoc=\"{quoted}\"></iframe></body>"
        );
        let dom = chromium.dom(&around);
        let measured = dom.split("<body>").nth(1).unwrap_or(&dom);
        assert!(
            measured.starts_with("measured ") && !measured.starts_with("measured 0 "),
            "{measured}"
        );
        assert!(measured.contains("findings: 0;"), "{measured}");
    }
}

#[test]
fn the_page_is_no_blank_sheet() {
    let chromium = Chromium::new();
    let size = (800, 1200);
    let blank = chromium.screenshot("<!DOCTYPE html><title>blank</title>", size);
    for language in LANGUAGES {
        let png = chromium.screenshot(&page(&stories::all(), language), size);
        assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n");
        let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
        assert_eq!((number(16), number(20)), size);
        // One colour is packed to next to nothing.
        assert!(
            png.len() > 5 * blank.len(),
            "{} bytes, blank {}",
            png.len(),
            blank.len()
        );
    }
}

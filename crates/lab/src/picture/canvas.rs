//! The few shapes that the pictures are made of, as SVG. No shape has an id, so that many pictures fit in one page.

use std::fmt::Write;

use super::text::escape;

/// Size of the text of marks, bars and the legend.
pub(super) const NORMAL: f64 = 12.0;

/// A box with its left upper corner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Area {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// SVG in the making. A write to a string cannot fail.
#[derive(Debug, Default)]
pub(super) struct Canvas {
    pub(super) out: String,
}

impl Canvas {
    pub(super) fn rect(&mut self, area: Area, class: &str, title: &str) {
        let Area {
            x,
            y,
            width,
            height,
        } = area;
        let _ = write!(
            self.out,
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="2""#
        );
        self.finish("rect", title);
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = writeln!(
            self.out,
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        );
    }

    pub(super) fn circle(&mut self, (x, y): (f64, f64), radius: f64, class: &str, title: &str) {
        let _ = write!(
            self.out,
            r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{radius:.1}""#
        );
        self.finish("circle", title);
    }

    /// A path whose steps are given ready.
    pub(super) fn path(&mut self, steps: &str, class: &str, title: &str) {
        let _ = write!(self.out, r#"<path class="{class}" d="{steps}""#);
        self.finish("path", title);
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), class: &str, text: &str) {
        let text = escape(text);
        let _ = writeln!(
            self.out,
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{text}</text>"#
        );
    }

    /// Text whose full form is shown when pointed at.
    pub(super) fn text_titled(&mut self, at: (f64, f64), class: &str, text: &str, title: &str) {
        let ((x, y), text, title) = (at, escape(text), escape(title));
        let _ = writeln!(
            self.out,
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{text}<title>{title}</title></text>"#
        );
    }

    /// Diagonal lines across a box, and nothing outside of it.
    pub(super) fn hatch(&mut self, area: Area, class: &str, title: &str) {
        const STEP: f64 = 7.0;
        let Area {
            x,
            y,
            width,
            height,
        } = area;
        let mut steps = String::new();
        let mut start = STEP;
        while start < width + height {
            // From the left or lower edge up to the upper or right one.
            let (x1, y1) = (x + (start - height).max(0.0), y + start.min(height));
            let (x2, y2) = (x + start.min(width), y + (start - width).max(0.0));
            let _ = write!(steps, "M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}");
            start += STEP;
        }
        self.path(&steps, class, "");
        // What catches the pointer; lines are too thin.
        self.rect(area, "catch", title);
    }

    fn finish(&mut self, element: &str, title: &str) {
        let _ = if title.is_empty() {
            writeln!(self.out, "/>")
        } else {
            let title = escape(title);
            writeln!(self.out, "><title>{title}</title></{element}>")
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hatch_stays_in_its_box() {
        let mut canvas = Canvas::default();
        let area = Area {
            x: 10.0,
            y: 20.0,
            width: 33.0,
            height: 12.0,
        };
        canvas.hatch(area, "h", "");
        let path = canvas.out.split(" d=\"").nth(1).unwrap();
        let path = path.split('"').next().unwrap();
        for point in path.split(['M', 'L']).filter(|point| !point.is_empty()) {
            let (x, y) = point.split_once(' ').unwrap();
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            assert!(
                (10.0..=43.0).contains(&x) && (20.0..=32.0).contains(&y),
                "{point}"
            );
        }
    }

    #[test]
    fn titles_and_texts_are_escaped() {
        let mut canvas = Canvas::default();
        canvas.text((0.0, 0.0), "t", "<script>");
        canvas.circle((0.0, 0.0), 1.0, "m", "</title><script>");
        canvas.text_titled((0.0, 0.0), "t", "<b>", "<i>");
        assert!(!canvas.out.contains("<script>") && !canvas.out.contains("<b>"));
        assert!(
            canvas
                .out
                .contains("<title>&lt;/title&gt;&lt;script&gt;</title>")
        );
    }
}

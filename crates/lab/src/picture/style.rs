//! How pictures and page look, in light and in dark. Colours can be told apart by the colour-blind; where they carry
//! meaning, a shape carries it too.

/// The style of a picture.
pub(super) const PICTURE: &str = include_str!("picture.css");

/// The style of the page around the pictures.
pub(super) const PAGE: &str = include_str!("page.css");

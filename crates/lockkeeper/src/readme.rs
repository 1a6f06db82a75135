//! The README files, compiled and run as documentation tests.

#[doc = include_str!("../../../README.md")]
struct English;

#[doc = include_str!("../../../README.zh-CN.md")]
struct Chinese;

//! The documentation: links, paths, names, tables, and the code of the pages.

#[path = "../common/mod.rs"]
mod common;

mod commands;
mod pages;
mod site;

//! Tests of the order of the library's modules: every module uses only modules on lower floors, and
//! no files use one another in a circle. A file may use what the `mod.rs` of its folder declares
//! for all files of the folder, and `mod.rs` uses these files: this does not count as a circle.
//!
//! The sources are parsed, and every path in a source is followed to the file that defines the
//! named item: through `use` with nested braces, `pub use`, `super::`, `self::`, paths in
//! expressions and types, and paths in the arguments of macros. Tests inside the sources are
//! skipped.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

/// The modules of the library from the ground up: a module may use the modules that precede it in
/// this list.
const FLOORS: [&str; 33] = [
    "named",
    "error",
    "environment",
    "shared_library",
    "together",
    "numbers",
    "nearest",
    "process",
    "stop",
    "reserve",
    "fallible_vec",
    "guarded",
    "files",
    "available",
    "scalar",
    "npy",
    "layout",
    "stats",
    "timeline",
    "schedule",
    "device",
    "codec",
    "persist",
    "plan",
    "tier",
    "predict",
    "quality",
    "config",
    "choice",
    "tune",
    "session",
    "capi",
    "lib",
];

type Names = Vec<String>;

/// What one source file declares and uses.
#[derive(Default)]
struct Source {
    /// Names that `use` items bring into scope, each with its path.
    imports: BTreeMap<String, Names>,
    /// All paths in the file as they are written; those of `use` items with their braces expanded.
    paths: BTreeSet<Names>,
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|a| {
        a.path().is_ident("cfg") && a.parse_args::<syn::Path>().is_ok_and(|p| p.is_ident("test"))
    })
}

fn flatten(tree: &UseTree, before: &mut Names, found: &mut Vec<(String, Names)>) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, found);
            before.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, before, found)),
        UseTree::Glob(_) => found.push((String::new(), before.clone())),
        UseTree::Name(name) if name.ident == "self" => {
            found.push((before.last().cloned().unwrap_or_default(), before.clone()))
        }
        UseTree::Name(name) => {
            found.push((name.ident.to_string(), [&before[..], &[name.ident.to_string()]].concat()))
        }
        UseTree::Rename(name) => {
            found.push((name.rename.to_string(), [&before[..], &[name.ident.to_string()]].concat()))
        }
    }
}

/// The paths in the arguments of a macro: names with `::` between them.
fn paths_in(tokens: TokenStream, found: &mut BTreeSet<Names>) {
    let (mut path, mut colons) = (Names::new(), 0);
    for token in tokens {
        match token {
            TokenTree::Ident(name) if path.is_empty() || colons == 2 => path.push(name.to_string()),
            TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => {
                colons = if colons == 2 { 1 } else { colons + 1 };
                continue;
            }
            other => {
                found.insert(std::mem::take(&mut path));
                match other {
                    TokenTree::Group(group) => paths_in(group.stream(), found),
                    TokenTree::Ident(name) => path.push(name.to_string()),
                    _ => {}
                }
            }
        }
        colons = 0;
    }
    found.insert(path);
}

impl<'ast> Visit<'ast> for Source {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Mod(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Const(item) => &item.attrs,
            Item::Static(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let mut found = Vec::new();
        flatten(&item.tree, &mut Names::new(), &mut found);
        let is_public = !matches!(item.vis, syn::Visibility::Inherited);
        for (name, path) in found {
            // A `mod.rs` that re-exports items of its folder's files does not thereby use these
            // files.
            if !is_public || matches!(path[0].as_str(), "crate" | "super") {
                self.paths.insert(path.clone());
            }
            if !name.is_empty() {
                self.imports.insert(name, path);
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.paths.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        paths_in(item.tokens.clone(), &mut self.paths);
        visit::visit_macro(self, item);
    }
}

/// Adds all source files below a folder except tests to `all`, by module path; `lib.rs`, `main.rs`
/// and `mod.rs` have the module path of their folder.
fn sources(folder: &Path, module: &[String], all: &mut BTreeMap<Names, Source>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        if path.is_dir() {
            sources(&path, &[module, &[name]].concat(), all);
            continue;
        }
        let Some(stem) = name.strip_suffix(".rs").filter(|stem| !stem.ends_with("tests")) else {
            continue;
        };
        let module = if matches!(stem, "lib" | "main" | "mod") {
            module.to_vec()
        } else {
            [module, &[stem.to_owned()]].concat()
        };
        all.insert(module, parse(&fs::read_to_string(&path).unwrap()));
    }
}

fn parse(text: &str) -> Source {
    let mut source = Source::default();
    source.visit_file(&syn::parse_file(text).expect("Rust"));
    source
}

/// Returns the path from the crate's root that `path`, written in `module`, stands for; `None` if
/// the path leads out of the crate or begins with a local name.
fn absolute(all: &BTreeMap<Names, Source>, module: &[String], path: &[String]) -> Option<Names> {
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([module, &path[1..]].concat()),
        "super" => {
            let (parent, rest) = (module.split_last()?.1, &path[1..]);
            absolute(all, parent, &[&["self".to_owned()], rest].concat())
                .filter(|_| rest.first().is_none_or(|name| name != "super"))
                .or_else(|| absolute(all, parent, rest))
        }
        child => all
            .contains_key(&[module, &[child.to_owned()]].concat())
            .then(|| [module, path].concat()),
    }
}

/// Returns the module path of the file that defines the item of an absolute path; follows at most 8
/// re-exports.
fn definition(all: &BTreeMap<Names, Source>, path: &[String], depth: usize) -> Option<Names> {
    let module =
        (0..=path.len()).rev().map(|k| &path[..k]).find(|module| all.contains_key(*module))?;
    let target =
        path.get(module.len()).and_then(|name| all[module].imports.get(name)).filter(|_| depth < 8);
    let again = target
        .and_then(|target| absolute(all, module, target))
        .and_then(|target| definition(all, &target, depth + 1));
    Some(again.unwrap_or_else(|| module.to_vec()))
}

type Uses = BTreeMap<Names, BTreeSet<Names>>;

fn uses(all: &BTreeMap<Names, Source>) -> Uses {
    let of = |(module, source): (&Names, &Source)| {
        let absolute = source.paths.iter().filter_map(|path| absolute(all, module, path));
        let files: BTreeSet<Names> = absolute
            .filter_map(|path| definition(all, &path, 0))
            .filter(|file| file != module)
            .collect();
        (module.clone(), files)
    };
    all.iter().map(of).collect()
}

fn name(module: &[String]) -> String {
    if module.is_empty() {
        "lib".to_owned()
    } else {
        module.join("::")
    }
}

/// Lists every use of a module on a higher floor than that of the using module, and every use by a
/// module that is missing in `FLOORS`.
fn upward(uses: &Uses) -> Vec<String> {
    let floor = |module: &[String]| {
        FLOORS.iter().position(|floor| *floor == module.first().map_or("lib", String::as_str))
    };
    let mut found = Vec::new();
    for (user, used) in
        uses.iter().flat_map(|(user, used)| used.iter().map(move |used| (user, used)))
    {
        // Constants of the crate itself, such as the version of its ABI, belong to the ground.
        let is_up = !used.is_empty() && (floor(user).is_none() || floor(used) > floor(user));
        found.extend(is_up.then(|| format!("{} uses {}", name(user), name(used))));
    }
    found
}

/// Lists the files that use themselves through other files. Uses of the `mod.rs` of the using
/// file's own folder, or of a folder around it, are not followed.
fn circles(uses: &Uses) -> Vec<String> {
    let reach = |from: &Names| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            for next in
                uses.get(module).into_iter().flatten().filter(|next| !module.starts_with(next))
            {
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
        seen.contains(from)
    };
    uses.keys().filter(|module| reach(module)).map(|module| name(module)).collect()
}

/// The devices of the host and of predictions, and the stores, know no CUDA: they are what a build for
/// another kind of device keeps.
#[test]
fn general_devices_and_stores_import_nothing_of_cuda() {
    let mut all = BTreeMap::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &[], &mut all);
    let is_cuda = |module: &Names| module.starts_with(&["device".into(), "cuda".into()]);
    // The coder keeps the codec's reports in memory that a GPU writes.
    let is_general = |module: &Names| {
        ["device", "plan", "predict", "tier"].contains(&module.first().map_or("", String::as_str))
            && !is_cuda(module)
            && name(module) != "tier::snapshot_coder"
    };
    let uses = uses(&all);
    let found = uses.iter().filter(|(user, used)| is_general(user) && used.iter().any(is_cuda));
    assert_eq!(found.map(|(user, _)| name(user)).collect::<Vec<_>>(), [""; 0]);
}

/// A plan follows from the configuration, not from the environment at the time of a call: all reads of
/// environment variables stand in one file, where one sees them.
#[test]
fn one_file_reads_environment_variables() {
    let mut all = BTreeMap::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &[], &mut all);
    let reads = |path: &Names| {
        let last = path.last().filter(|_| path.len() > 1 && path.contains(&"env".to_owned()));
        last.is_some_and(|name| name == "env" || name.starts_with("var"))
    };
    let readers = all.iter().filter(|(_, source)| source.paths.iter().any(reads));
    // The benchmark of dct is part of the tests.
    let readers = readers.map(|(module, _)| name(module)).filter(|it| it != "codec::dct::measure");
    assert_eq!(readers.collect::<Vec<_>>(), ["environment"]);
}

#[test]
fn every_module_uses_only_modules_below_it() {
    let mut all = BTreeMap::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &[], &mut all);
    assert!(all.len() > 130, "{} files", all.len());
    let uses = uses(&all);
    assert_eq!(upward(&uses), [""; 0], "imports that go up");
    assert_eq!(circles(&uses), [""; 0], "files that use one another in a circle");
}

/// The uses in modules that are given as (name, source text).
fn made(texts: &[(&str, &str)]) -> Uses {
    let module = |name: &str| {
        name.split("::").filter(|name| *name != "lib").map(str::to_owned).collect::<Names>()
    };
    uses(&texts.iter().map(|(name, text)| (module(name), parse(text))).collect())
}

#[test]
fn an_import_that_goes_up_is_found_however_it_is_written() {
    let tier = ("tier", "mod raw; pub use raw::Raw; pub struct Tiers;");
    let raw = ("tier::raw", "pub struct Raw;");
    for text in [
        "use crate::tier::Tiers;",
        "use crate::{error::Error, tier::{Raw as R}};",
        "pub use crate::tier::Raw;",
        "pub(crate) use super::tier::raw::Raw;",
        "use super::*; fn f() { super::tier::Tiers; }",
        "fn f(x: crate::tier::Tiers) {}",
        "fn f() { let _ = crate::tier::raw::new(); }",
        "fn f() { assert!(matches!(x, [crate::tier::Tiers, ..])); }",
        "struct S { x: Vec<Option<crate::tier::Raw>> }",
    ] {
        let found = upward(&made(&[tier, raw, ("plan", text)]));
        assert!(
            !found.is_empty() && found.iter().all(|use_| use_.starts_with("plan uses tier")),
            "{text}: {found:?}"
        );
        let below = upward(&made(&[tier, raw, ("session", text)]));
        assert_eq!(below, [""; 0], "{text}");
    }
    let tests_do_not_count =
        "#[cfg(test)] mod tests { use crate::tier::Tiers; } #[cfg(test)] use crate::tier::Raw;";
    assert_eq!(upward(&made(&[tier, raw, ("plan", tests_do_not_count)])), [""; 0]);
    assert_eq!(
        upward(&made(&[("nowhere", "use crate::error::Error;"), ("error", "")])),
        ["nowhere uses error"]
    );
}

#[test]
fn a_circle_is_found_through_what_a_folder_re_exports() {
    let folder = ("plan", "mod one; mod two; pub use one::One; pub use two::Two;");
    let one = ("plan::one", "use super::Two; pub struct One;");
    assert_eq!(circles(&made(&[folder, one, ("plan::two", "pub struct Two;")])), [""; 0]);
    assert_eq!(
        circles(&made(&[folder, one, ("plan::two", "use crate::plan::One; pub struct Two;")])),
        ["plan::one", "plan::two"]
    );
    let three = ("tier::three", "fn f() { crate::plan::One }");
    let over = ("plan::one", "use crate::tier::three::f;");
    assert_eq!(
        circles(&made(&[folder, over, ("tier", "mod three;"), three])),
        ["plan::one", "tier::three"]
    );
    let own =
        [("plan", "mod one; fn f() { one::g() }"), ("plan::one", "use super::f; pub fn g() {}")];
    assert_eq!(circles(&made(&own)), [""; 0], "a folder and its file");
}

#[test]
fn the_files_of_the_command_form_no_circle() {
    let mut all = BTreeMap::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("cli/src"), &[], &mut all);
    assert!(all.len() > 15, "{} files", all.len());
    assert_eq!(circles(&uses(&all)), [""; 0], "files that use one another in a circle");
}

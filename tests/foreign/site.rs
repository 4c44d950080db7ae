//! `make site`: the rendered documentation, and the manual pages of the C interface.

use crate::common::{have, root, run, tempdir, venv};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The most words of a page of the site. The longest page is one of tables, benches/results/codecs-peers.md.
const MOST_WORDS: usize = 3_100;

/// The number of words of a page, without the navigation beside them.
fn words_of_page(html: &str) -> usize {
    let (_, article) = html.split_once("<article").unwrap_or(("", ""));
    let (article, _) = article.split_once("</article>").unwrap_or((article, ""));
    let text: String =
        article.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text).collect();
    text.split_whitespace().count()
}

/// The script fails if a page has a link that leads nowhere, or Sphinx has a warning.
#[test]
fn the_site_is_made_and_its_links_lead_somewhere() {
    let folder = tempdir("site");
    let (site, tools) = (folder.join("site"), folder.join("site-tools"));
    let versions = root().join("docs/site/requirements.txt");
    let text = fs::read_to_string(&versions).unwrap();
    let packages: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    if let Err(reason) = venv::make(&tools, &packages) {
        println!("skipped: {reason}");
        return;
    }
    fs::copy(&versions, tools.join("requirements.txt")).unwrap();
    run(venv::command(Path::new("sh")).arg(root().join("docs/site/make.sh")).arg(&site));

    let read =
        |name: &str| fs::read_to_string(site.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let start = read("index.html");
    for group in ["Begin here", "Use gpuzip", "Reference", "Change gpuzip"] {
        assert!(start.contains(group), "the navigation lacks {group}");
    }
    assert!(site.join("man/man3/gpuzip_save.3").exists());
    assert!(read("docs/caller.html").contains("href=\"../reference/gpuzip_save.html\""));
    for link in ["cxx-session.html", "cxx-gpuzip.html#pitched"] {
        assert!(read("docs/cxx.html").contains(&format!("href=\"../reference/{link}\"")), "{link}");
    }
    let index = read("searchindex.js");
    for page in
        ["docs/tutorial", "reference/gpuzip_save", "reference/cxx-gpuzip", "reference/python-init"]
    {
        assert!(index.contains(&format!("\"{page}\"")), "the search does not know {page}");
    }

    let (mut pages, mut long) = (0, Vec::new());
    for folder in ["", "docs", "reference", "benches/results"] {
        let files = fs::read_dir(site.join(folder)).unwrap().map(|file| file.unwrap().path());
        for file in files.filter(|file| file.extension().is_some_and(|ending| ending == "html")) {
            let words = words_of_page(&fs::read_to_string(&file).unwrap());
            pages += 1;
            if words > MOST_WORDS {
                long.push(format!("{}: {words} words", file.display()));
            }
        }
    }
    assert!(pages > 200, "the site has {pages} pages");
    assert!(long.is_empty(), "pages that docs/site is to split: {long:#?}");
    let words = words_of_page(&read("reference/gpuzip_config_t.html"));
    assert!((100..1000).contains(&words), "the words of a page are not found: {words}");

    // A page that is gone is missed by the pages that lead to it.
    fs::remove_file(site.join("docs/tutorial.html")).unwrap();
    let mut check = Command::new(tools.join("bin/python"));
    check.arg("-B").arg(root().join("docs/site/links.py")).arg(&site);
    let output = check.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("index.html: docs/tutorial.html"), "{said}");
}

#[test]
fn mandoc_has_nothing_to_say_of_the_manual_pages() {
    if !have("python3") {
        return;
    }
    let folder = tempdir("site-mandoc");
    let script = root().join("docs/site/reference.py");
    run(Command::new("python3").arg("-B").arg(script).arg("man").arg(&folder));
    let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let Ok(lint) = Command::new("mandoc").arg("-Tlint").args(files).output() else {
        println!("skipped: mandoc is not installed");
        return;
    };
    // The pages have no date, since the header has none.
    let text = String::from_utf8(lint.stdout).unwrap();
    let (dates, others): (Vec<&str>, _) =
        text.lines().partition(|line| line.contains("missing date"));
    assert!(others.is_empty(), "{others:#?}");
    assert!(dates.len() > 90, "mandoc has read {} pages", dates.len());
}

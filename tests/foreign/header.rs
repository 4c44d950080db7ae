//! A reader of `include/gpuzip.h`, whose form is regular because cbindgen generates the file.

use crate::common::root;

/// A C declaration: `const struct gpuzip_field_t *fields` has the base `gpuzip_field_t`, the name
/// `fields` and one star, and is constant.
pub struct Declaration {
    pub doc: String,
    pub base: String,
    pub name: String,
    pub constant: bool,
    pub stars: usize,
    pub elements: Option<usize>,
}

/// A function, or the type of a callback.
pub struct Function {
    pub doc: String,
    pub result: Declaration,
    pub arguments: Vec<Declaration>,
}

/// A struct whose members the header shows.
pub struct Struct {
    pub doc: String,
    pub name: String,
    pub members: Vec<Declaration>,
}

/// A `#define` of a number.
pub struct Constant {
    pub doc: String,
    pub name: String,
    pub value: i32,
}

/// The declarations of the header, in their order.
#[derive(Default)]
pub struct Header {
    pub constants: Vec<Constant>,
    pub opaque: Vec<String>,
    pub structs: Vec<Struct>,
    pub callbacks: Vec<Function>,
    pub functions: Vec<Function>,
}

impl Header {
    /// The header of this repository.
    pub fn ours() -> Header {
        Header::parse(&std::fs::read_to_string(root().join("include/gpuzip.h")).unwrap())
    }

    fn parse(text: &str) -> Header {
        let mut header = Header::default();
        for (doc, statement) in statements(&plain_c(text)) {
            header.add(doc, &statement);
        }
        header
    }

    fn add(&mut self, doc: String, statement: &str) {
        let flat = statement.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(define) = flat.strip_prefix("#define ") {
            if let Some((name, value)) = define.split_once(' ') {
                self.constants.push(Constant {
                    doc,
                    name: name.into(),
                    value: value.parse().expect(name),
                });
            }
        } else if let Some((_, body)) = statement.split_once('{') {
            let (body, name) = body.rsplit_once('}').expect("the end of a struct");
            let members = statements(body)
                .into_iter()
                .map(|(doc, member)| declaration(doc, &member))
                .collect();
            self.structs.push(Struct { doc, name: name.trim().into(), members });
        } else if let Some(opaque) = flat.strip_prefix("typedef struct ") {
            self.opaque.push(opaque.split(' ').next().unwrap().into());
        } else if let Some(callback) = flat.strip_prefix("typedef ").filter(|t| t.contains("(*")) {
            self.callbacks
                .push(function(doc, &callback.replacen("(*", "", 1).replacen(")(", "(", 1)));
        } else if !flat.starts_with("typedef ") {
            self.functions.push(function(doc, &flat));
        }
    }
}

/// Removes the lines for C++ only, all directives but `#define`, and the C++ defaults of members.
fn plain_c(text: &str) -> String {
    let mut skipped = false;
    let mut plain = String::new();
    for line in text.lines() {
        skipped |= line.starts_with("#if") && line.contains("__cplusplus");
        if !skipped && (!line.starts_with('#') || line.starts_with("#define")) {
            plain += line.split(" GPUZIP_DEFAULT(").next().unwrap();
            plain += if line.contains(" GPUZIP_DEFAULT(") { ";\n" } else { "\n" };
        }
        skipped &= !line.starts_with("#endif");
    }
    plain
}

/// The statements of `text`, each as (the comment in front of the statement, the statement).
fn statements(mut text: &str) -> Vec<(String, String)> {
    let (mut doc, mut found) = (String::new(), Vec::new());
    loop {
        text = text.trim_start();
        if let Some(comment) = text.strip_prefix("/*") {
            let (words, rest) = comment.split_once("*/").expect("the end of a comment");
            (doc, text) = (words.into(), rest);
            continue;
        }
        let mut depth = 0;
        let end = text.find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0 && c == if text.starts_with('#') { '\n' } else { ';' }
        });
        let Some(end) = end else { return found };
        found.push((std::mem::take(&mut doc), text[..end].into()));
        text = &text[end + 1..];
    }
}

fn function(doc: String, text: &str) -> Function {
    let (head, arguments) = text.split_once('(').expect(text);
    let arguments =
        arguments.trim_end_matches(')').split(',').filter(|argument| argument.trim() != "void");
    Function {
        doc,
        result: declaration(String::new(), head),
        arguments: arguments.map(|argument| declaration(String::new(), argument)).collect(),
    }
}

fn declaration(doc: String, text: &str) -> Declaration {
    let (text, elements) = match text.trim().split_once('[') {
        Some((text, count)) => (text, Some(count.trim_end_matches(']').parse().expect("a count"))),
        None => (text.trim(), None),
    };
    let stars = text.matches('*').count();
    let mut words: Vec<&str> =
        text.split([' ', '*', '\n']).filter(|word| !word.is_empty() && *word != "struct").collect();
    let constant = words[0] == "const";
    words.retain(|word| *word != "const");
    let [base, name] = words[..] else { panic!("a type and a name: {text}") };
    Declaration { doc, base: base.into(), name: name.into(), constant, stars, elements }
}

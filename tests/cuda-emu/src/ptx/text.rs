//! Splits PTX text into statements.

/// A statement and its line.
#[derive(Debug)]
pub struct Statement {
    /// Number of the line on which the statement begins, from 1.
    pub line: u32,
    /// The statement.
    pub kind: Kind,
}

/// The kinds of statements.
#[derive(Debug, PartialEq)]
pub enum Kind {
    /// `{`: a function or a scope of registers begins.
    Open,
    /// `}`
    Close,
    /// A label, without the colon.
    Label(String),
    /// File and line of the source from which the next instructions come.
    Location(u32, u32),
    /// The name of a file.
    File(u32, String),
    /// A directive or an instruction without its semicolon, or the head of a function.
    Text(String),
}

/// Returns the statements of a module, without debug sections.
pub fn statements(text: &str) -> Vec<Statement> {
    let mut all = Vec::new();
    let (mut current, mut begun, mut in_debug) = (String::new(), 0, false);
    for (number, whole) in text.lines().enumerate() {
        let number = number as u32 + 1;
        let line = whole.split("//").next().unwrap_or("").trim();
        if let Some(kind) = of_line(line, whole) {
            all.extend(kind.map(|kind| Statement { line: number, kind }));
            continue;
        }
        in_debug |= line.starts_with(".section");
        if in_debug {
            continue;
        }
        for letter in line.chars() {
            if current.is_empty() {
                begun = number;
            }
            let text = current.trim();
            let kind = match letter {
                ';' => Kind::Text(text.to_owned()),
                '{' if text.is_empty() => Kind::Open,
                '}' if text.is_empty() => Kind::Close,
                ':' if is_name(text) => Kind::Label(text.to_owned()),
                '{' if text.contains(".entry") || text.contains(".func") => {
                    all.push(Statement { line: begun, kind: Kind::Text(text.to_owned()) });
                    Kind::Open
                }
                _ => {
                    if !(current.is_empty() && letter.is_whitespace()) {
                        current.push(letter);
                    }
                    continue;
                }
            };
            if kind != Kind::Text(String::new()) {
                all.push(Statement { line: begun, kind });
            }
            current.clear();
        }
        if !current.is_empty() {
            current.push(' ');
        }
    }
    all
}

/// Returns the statement of a line that needs no semicolon: `Some(None)` if it says nothing about
/// the program.
fn of_line(line: &str, whole: &str) -> Option<Option<Kind>> {
    let mut words = line.split_whitespace();
    match words.next()? {
        ".loc" => {
            let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            Some(Some(Kind::Location(number(), number())))
        }
        ".file" => {
            let number = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            let name = whole.split('"').nth(1).unwrap_or("");
            let name = name.rsplit('/').next().unwrap_or(name);
            Some(Some(Kind::File(number, name.to_owned())))
        }
        ".version" | ".target" | ".address_size" | ".pragma" => Some(None),
        _ => None,
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "_$.".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_at_semicolons_and_braces() {
        let text = ".version 8.8\n.visible .entry f(\n\t.param .u64 a\n)\n{\n.loc 1 7 3, function_name x\n\
                    \tld.v2.u32 {%r1, %r2}, [%rd1]; // words\n$L_1: ret;\n}\n.file 1 \"/a/b.cu\"\n.section .x\n{\n.b8 1\n}";
        let kinds: Vec<Kind> = statements(text).into_iter().map(|each| each.kind).collect();
        let plain = |text: &str| Kind::Text(text.to_owned());
        let expected = [
            plain(".visible .entry f( .param .u64 a )"),
            Kind::Open,
            Kind::Location(1, 7),
            plain("ld.v2.u32 {%r1, %r2}, [%rd1]"),
            Kind::Label("$L_1".into()),
            plain("ret"),
            Kind::Close,
            Kind::File(1, "b.cu".into()),
        ];
        assert_eq!(kinds, expected);
    }
}

//! The software NVRTC: the machine's C++ compiler makes a shared library of a kernel source. The
//! bytes of this library in hexadecimal are the image, "PTX" and "CUBIN" at once, that the driver
//! loads.

use std::ffi::{c_char, CStr};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// The first line of an image.
const MAGIC: &str = "// cuda-emu kernels\n";
/// The prefix of the lowered names of name expressions.
pub const LOWERED: &str = "emu_name_";
/// The headers that define CUDA's words; they are compiled with every kernel.
const HEADERS: [(&str, &str); 2] = [
    ("kernel.h", include_str!("../kernel.h")),
    ("kernel_intrinsics.h", include_str!("../kernel_intrinsics.h")),
];

/// The minor version of the compiler: a checksum of the headers that are compiled with every
/// kernel.
pub const MINOR: i32 = {
    let mut sum = 0;
    let mut h = 0;
    while h < HEADERS.len() {
        let text = HEADERS[h].1.as_bytes();
        let mut i = 0;
        while i < text.len() {
            sum = (sum * 31 + text[i] as i32) % 100_003;
            i += 1;
        }
        h += 1;
    }
    sum
};

/// The options of the C++ compiler. `-U_FORTIFY_SOURCE`: a fortified `longjmp` would refuse jumps
/// between the stacks of fibres.
const FLAGS: [&str; 10] = [
    "-O1",
    "-g1",
    "-fPIC",
    "-shared",
    "-std=c++17",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fno-gnu-unique",
    "-U_FORTIFY_SOURCE",
    "-Wl,-Bsymbolic",
];

/// A program of NVRTC: a source, and the results of its compilation.
#[derive(Default)]
pub struct Program {
    /// The source text.
    pub source: String,
    /// The name of the program in messages.
    pub name: String,
    /// The header files that the source may include: name and text.
    pub headers: Vec<(String, String)>,
    /// The name expressions, each with its lowered name.
    pub expressions: Vec<(String, std::ffi::CString)>,
    /// The messages of the compiler.
    pub log: String,
    /// The image that the driver loads; empty before a compilation succeeds.
    pub image: String,
}

/// A temporary folder, which is deleted when this value is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Program {
    /// Compiles the program. Returns `false` if the compilation failed; the log then has the
    /// reason.
    pub fn compile(&mut self, options: &[String]) -> bool {
        match self.library(options) {
            Ok((log, bytes)) => {
                self.log = log;
                self.image = bytes.as_deref().map(encode).unwrap_or_default();
                bytes.is_some()
            }
            Err(error) => {
                self.log = format!("the C++ compiler did not run: {error}");
                false
            }
        }
    }

    fn library(&self, options: &[String]) -> std::io::Result<(String, Option<Vec<u8>>)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!(
            "cuda-emu-{}-nvrtc-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let folder = Folder(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&folder.0)?;
        let own = HEADERS.map(|(name, text)| (name.to_owned(), text.to_owned()));
        for (name, text) in own.iter().chain(&self.headers) {
            write(&folder.0.join(name), text)?;
        }
        write(&folder.0.join("program.cpp"), &self.text())?;
        let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
        let mut command = Command::new(compiler);
        command
            .args(FLAGS)
            .arg("-I")
            .arg(&folder.0)
            .args(translate(options))
            .arg("-include")
            .arg(folder.0.join("kernel.h"));
        let output = command
            .arg(folder.0.join("program.cpp"))
            .arg("-o")
            .arg(folder.0.join("program.so"))
            .output()?;
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        let bytes = output
            .status
            .success()
            .then(|| std::fs::read(folder.0.join("program.so")))
            .transpose()?;
        Ok((log, bytes))
    }

    /// Returns the source followed by a trampoline for each kernel.
    fn text(&self) -> String {
        let source = dynamic_shared(&self.source);
        let mut text = format!(
            "#line 1 \"{}\"\n{source}\n#line 1 \"trampolines\"\n",
            self.name.replace(['"', '\\', '\n'], "_")
        );
        let mut trampoline = |name: &str, kernel: &str| {
            let _ = writeln!(text, "extern \"C\" void *emu_kernel_{name}(int what, void *p) {{ return emu_kernel({kernel}, what, p); }}");
        };
        kernels(&self.source).iter().for_each(|name| trampoline(name, name));
        self.expressions
            .iter()
            .for_each(|(expression, name)| trampoline(&name.to_string_lossy(), expression));
        text
    }
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    std::fs::write(path, text)
}

/// Translates the options for macros and include folders into options of the C++ compiler. Other
/// options are ignored.
fn translate(options: &[String]) -> Vec<String> {
    let prefixes = [
        ("--define-macro=", "-D"),
        ("--undefine-macro=", "-U"),
        ("--include-path=", "-I"),
        ("-D", "-D"),
        ("-U", "-U"),
        ("-I", "-I"),
    ];
    let mut result = Vec::new();
    let mut rest = options.iter();
    while let Some(option) = rest.next() {
        let Some((prefix, short)) = prefixes.iter().find(|(prefix, _)| option.starts_with(prefix))
        else {
            continue;
        };
        let value = option[prefix.len()..].trim();
        let value =
            if value.is_empty() { rest.next().map_or("", |next| next.as_str()) } else { value };
        result.push(format!("{short}{value}"));
    }
    result
}

/// Returns the names of the kernels at global scope that are no templates: the words before the
/// first parameter list behind each `__global__`.
fn kernels(source: &str) -> Vec<String> {
    let text = without_comments(source);
    let mut names: Vec<String> = Vec::new();
    let mut end = 0;
    for (at, word) in text.match_indices("__global__") {
        let before = text[end.min(at)..at].rsplit([';', '}', '{']).next().unwrap_or("");
        end = at + word.len();
        let mut rest = &text[end..];
        while let Some(open) = rest.find('(') {
            let name = rest[..open]
                .trim_end()
                .rsplit(|c: char| !(c.is_alphanumeric() || c == '_'))
                .next()
                .unwrap_or("");
            if name != "__launch_bounds__" {
                if !name.is_empty()
                    && !before.contains("template")
                    && !names.iter().any(|known| known == name)
                {
                    names.push(name.to_owned());
                }
                break;
            }
            rest = rest[open..].find(')').map_or("", |close| &rest[open + close + 1..]);
        }
    }
    names
}

fn without_comments(source: &str) -> String {
    let mut text = String::new();
    let mut rest = source;
    while let Some(at) = rest.find("/*").into_iter().chain(rest.find("//")).min() {
        text += &rest[..at];
        let end = if rest[at..].starts_with("//") { "\n" } else { "*/" };
        rest = rest[at + 2..].find(end).map_or("", |found| &rest[at + 2 + found + end.len()..]);
        text.push(if end == "\n" { '\n' } else { ' ' });
    }
    text + rest
}

/// Replaces `extern __shared__ T name[];` by a pointer to the block's dynamic shared memory.
fn dynamic_shared(source: &str) -> String {
    let mut parts = source.split("extern __shared__");
    let mut text = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let declared = part.split_once(';').and_then(|(declaration, rest)| {
            let (declaration, _) = declaration.split_once('[')?;
            let declaration = match declaration.rsplit_once(')') {
                Some((_, plain)) => plain.trim(),
                None => declaration.trim(),
            };
            let (kind, name) = declaration.rsplit_once(char::is_whitespace)?;
            Some(format!("{kind} *const {name} = ({kind} *)emu_dynamic_shared;{rest}"))
        });
        text += &declared.unwrap_or_else(|| format!("extern __shared__{part}"));
    }
    text
}

fn encode(bytes: &[u8]) -> String {
    let mut text = MAGIC.to_owned();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns the bytes of the shared library in an image; `None` for an image of another maker.
///
/// # Safety
/// `image` must be a C string, or differ from `MAGIC` within its first bytes.
pub unsafe fn decode(image: *const c_char) -> Option<Vec<u8>> {
    for (k, byte) in MAGIC.bytes().enumerate() {
        // SAFETY: all bytes before byte `k` equal those of `MAGIC`, so the image has not ended.
        if unsafe { image.add(k).read() } as u8 != byte {
            return None;
        }
    }
    // SAFETY: the image begins with `MAGIC`, so the caller promises a C string.
    let digits = &unsafe { CStr::from_ptr(image) }.to_bytes()[MAGIC.len()..];
    let digit = |byte: u8| (byte as char).to_digit(16);
    digits
        .chunks_exact(2)
        .map(|pair| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_found() {
        let source =
            "// __global__ void no(int)\nextern \"C\" __global__ void __launch_bounds__(32, 1) a(int x) { f(x); }\n/* __global__ */\n\
             template <int N> __global__ void t() {}\nextern \"C\" __launch_bounds__(8) __global__\nvoid b\n() {}";
        assert_eq!(kernels(source), ["a", "b"]);
    }

    #[test]
    fn dynamic_shared_memory_is_a_pointer() {
        let text = dynamic_shared(
            "x; extern __shared__ __align__(16) unsigned char s[]; y; extern __shared__ float f[];",
        );
        let pointers = "x; unsigned char *const s = (unsigned char *)emu_dynamic_shared; y; float *const f = (float *)emu_dynamic_shared;";
        assert_eq!(text, pointers);
    }
}

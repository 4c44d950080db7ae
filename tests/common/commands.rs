//! The commands that pages ask their readers to type: the lines of blocks `sh`, and what stands in backquotes.
//! tests/foreign/blocks.rs runs every command that `NOT_RUN` does not list, as it is printed.

use super::pages::{Block, Page};

/// A command of a page, without the comment behind it.
pub struct Typed {
    /// Line number in the page.
    pub line: usize,
    /// One line, with the lines that a backslash or a here-document joins to it.
    pub text: String,
    /// The exit code: the number of a comment `# exit code N` behind the command, or 0.
    pub code: u8,
}

/// The programs that commands in backquotes begin with. `rtm3d` and its like stand for an option of the
/// program in prose: a reader types `build/rtm3d`.
const PROGRAMS: [&str; 19] = [
    "make", "gpuzip", "cargo", "sh", "bash", "python", "python3", "pip", "cc", "mpicc", "gfortran",
    "cmake", "tar", "mpirun", "srun", "sbatch", "sudo", "man", "apt-get",
];

/// Commands that tests do not run, by the reason. An entry is the whole command, on whatever page.
pub const NOT_RUN: &[(&str, &[&str])] = &[
    (
        "network: pip downloads what the program needs; tests of Python install it where they can",
        &[
            "pip install ./python",
            "GPUZIP_LIBRARY=/usr/local/lib pip install ./python",
            "pip install distributed",
            "python python/examples/devito_rtm.py --task rtm --plot image.png",
            "python python/examples/devito_rtm.py --task gradient --equation viscoacoustic --states full",
            "python python/examples/jax_fwi.py --memory 1M --plot inversion.png",
            "python python/examples/survey.py --shots 200 --workers 4 -- --model vp.f32 --n1 81 --n2 201 --dx 25",
            "python python/benches/overhead.py",
            "python -m gpuzip",
        ],
    ),
    (
        "network: downloads crates or packages; tests/foreign runs these commands where it can",
        &[
            "make dist",
            "make site",
        ],
    ),
    (
        "network: needs the files of a release, which tests/foreign/packaging.rs makes, unpacks and builds",
        &[
            "tar xf gpuzip-0.1.0-linux-x86_64.tar.gz -C $HOME",
            "tar xf gpuzip-0.1.0.tar.gz",
            "make -C gpuzip-0.1.0 install PREFIX=$HOME/gpuzip",
        ],
    ),
    (
        "root rights: installs for all users",
        &[
            "make install",
            "make build && sudo make install",
        ],
    ),
    (
        "batch system",
        &[
            "sbatch elastic.slurm",
            "sbatch survey.slurm",
            "srun build/rtm3d --shots 2000 --claim \"$SCRATCH/survey\" --no-wait --out \"$SCRATCH/image\"",
            "python python/examples/survey.py --slurm --shots 2000 --workers 64 --threads 16 -- --model vp.f32",
        ],
    ),
    (
        "GPU",
        &[
            "./run",
        ],
    ),
    (
        "a program that may be missing: NVRTC of the CUDA toolkit, man",
        &[
            "gpuzip kernels --prebuild",
            "gpuzip kernels --prebuild --arch 80,90",
            "man 3 gpuzip",
            "man gpuzip_save",
            "man gpuzip_status_t",
        ],
    ),
    (
        "longer than a minute: builds the library first",
        &[
            "make demo",
            "make gpu-bundle",
            "make lint",
        ],
    ),
    (
        "longer than a minute: compiles test programs and runs them",
        &[
            "make test",
            "make test-all",
            "make test-long",
            "make header",
            "make docs",
            "make abi",
            "make fuzz",
            "sh tests/on_ptx.sh",
            "cargo test",
            "cargo test --test host sessions::",
            "cargo test --lib persist",
            "cargo test --test examples petsc::",
            "cargo test -p gpuzip-fuzz",
            "cargo test -p gpuzip-cuda-emu",
            "cargo build -p gpuzip-cuda-emu",
            "GPUZIP_TEST_LONG=1 cargo test stress",
            "GPUZIP_TEST_LONG=1 cargo test sanitizers",
            "GPUZIP_TEST_LONG=1 cargo test --test examples a_killed_run",
            "GPUZIP_UPDATE_PLANS=1 cargo test --test host reference::",
        ],
    ),
    (
        "longer than a minute: measures",
        &[
            "make bench",
            "make bench-adapters",
            "make bench-adapters ADAPTERS=checkpoint_schedules",
            "make bench-adapters ADAPTERS=devito",
            "make bench-adapters ADAPTERS=jax",
            "make bench-adapters ADAPTERS=pyrevolve",
            r#"make bench-adapters PYTHON=/usr/bin/python3 ADAPTERS="torch torch_layers""#,
            "make bench-codecs",
            "make bench-disk",
            "make bench-fields",
            "make bench-grid",
            "make bench-jax",
            "make bench-restart",
            "make end-to-end",
            "make bench-disk DISK=/var/tmp/disk DISK_CASE='3751 --model overthrust_2p5d_96x28x64_30m_vp.f32 --n1 64 --n2 28 --n3 96 --dx 30 --freq 9 --dt 0.0024'",
            "PAIRS=5 STOPS=6 make bench-restart DISK=/var/tmp/disk RESTART_CASE='--model overthrust_2p5d_96x28x64_30m_vp.f32 --n1 64 --n2 28 --n3 96 --dx 30 --freq 9 --dt 0.0024 --steps 480'",
            "make bench-grid GRID='3751 --model overthrust2d_401x121_25m_vp.f32 --n1 121 --n2 401 --dx 25 --border 100'",
            "make bench-grid GRID='3751,30 --model overthrust2d_401x121_25m_vp.f32 --n1 121 --n2 401 --dx 25 --border 100'",
            "cargo bench --bench pairs",
            "cargo bench --bench runs",
            "cargo bench --bench sequences",
            "python3 benches/three_levels.py target/release/gpuzip 200",
            "sh benches/survey.sh",
            "OMP_NUM_THREADS=1 python3 benches/sweeps.py build/cpml3d --cells 32 --steps 200 --runs 2",
        ],
    ),
    (
        "longer than a minute: many shots, or several migrations",
        &[
            "build/rtm3d --sweep --codecs none,dct:1e-2,dct:1e-3,dct:1e-4,lorenzo:1e-2,lorenzo:1e-3,lorenzo:1e-4",
            "build/rtm3d --gradient --taylor",
            "build/rtm3d --shots 200 --claim survey --out image &",
            "mpirun -n 4 build/rtm3d_mpi --shots 8 --restart survey --out image",
            "mpirun --oversubscribe -n 4 build/rtm3d_mpi --decompose --n1 64 --n2 48 --n3 96",
        ],
    ),
    (
        "no whole command: names a subcommand, an option or a variable in prose",
        &[
            "gpuzip clone",
            "gpuzip codec",
            "gpuzip codec --bound rel:1e-3",
            "gpuzip inspect",
            "gpuzip kernels",
            "gpuzip plan",
            "gpuzip flushd",
            "gpuzip plan --codec-threads 1",
            "gpuzip plan --disk-budget 1T --disk-gbs 6,4",
            "gpuzip plan --ranks",
            "gpuzip plan --sequence-ratio",
            "gpuzip report",
            "gpuzip schedule",
            "make REAL=double",
        ],
    ),
];

/// The reason why tests do not run a command.
pub fn not_run(command: &str) -> Option<&'static str> {
    let found = NOT_RUN.iter().find(|(_, commands)| commands.contains(&command));
    found.map(|(reason, _)| *reason)
}

/// Pages with programs in Python, and the tests in python/tests that take these programs from the page and fail if
/// the page has more. The programs need packages from the network: tests/foreign/python.rs installs these
/// packages and runs the tests.
pub const PYTHON: [(&str, &str); 9] = [
    ("docs/python.md", "test_docs.py"),
    ("python/README.md", "test_docs.py"),
    ("docs/jax.md", "adapter_jax_scan.py"),
    ("docs/torch.md", "adapter_torch.py"),
    ("docs/torch.md", "adapter_torch_layers.py"),
    ("docs/pyrevolve.md", "adapter_pyrevolve.py"),
    ("docs/devito.md", "adapter_devito.py"),
    ("docs/restart.md", "adapter_netcdf.py"),
    ("docs/checkpoint_schedules.md", "adapter_checkpoint_schedules.py"),
];

/// The commands of a block, in their order.
pub fn in_block(block: &Block) -> Vec<Typed> {
    let mut commands = Vec::new();
    let mut lines = block.text.lines().enumerate();
    while let Some((at, first)) = lines.next() {
        let mut text = bare(first).to_string();
        let code = first.split_once("# exit code ").map_or(0, |(_, code)| code.parse().unwrap());
        while let Some(begun) = text.strip_suffix('\\') {
            let next = lines.next().expect("a line after a backslash").1;
            text = format!("{} {}", begun.trim_end(), bare(next).trim_start());
        }
        if let Some((_, end)) = first.split_once("<<'") {
            let end = end.trim_end_matches('\'');
            for (_, line) in lines.by_ref() {
                text += &format!("\n{line}");
                if line == end {
                    break;
                }
            }
        }
        if !text.is_empty() {
            commands.push(Typed { line: block.line + 1 + at, text, code });
        }
    }
    commands
}

/// The commands in backquotes. Text with a placeholder, such as `make install PREFIX=...`, is none.
pub fn in_prose(page: &Page) -> Vec<Typed> {
    let spans = page.spans().into_iter();
    spans
        .filter(|(_, text)| is_command(text))
        .map(|(line, text)| Typed { line, text, code: 0 })
        .collect()
}

/// Whether a line is a whole command with arguments.
pub fn is_command(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().skip_while(|word| is_variable(word)).collect();
    let Some(program) = words.first() else { return false };
    let here = program.starts_with("./") || program.starts_with("build/");
    (words.len() > 1 && PROGRAMS.contains(program)
        || here && words.len() > 1
        || *program == "./run")
        && !line.split_whitespace().any(is_placeholder)
}

/// Whether a word sets a variable of the environment for the command behind it.
fn is_variable(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty()
        && name.bytes().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_')
}

/// Words such as `DIR`, `PREFIX=...` and `k` stand for what the reader has.
fn is_placeholder(word: &str) -> bool {
    let value = word.rsplit('=').next().unwrap();
    let name = !value.is_empty() && value.bytes().all(|c| c.is_ascii_uppercase());
    name || value == "k" || word.contains("...") || word.contains('*')
}

/// A line without the comment behind it.
fn bare(line: &str) -> &str {
    let code = if line.starts_with('#') { "" } else { line.split(" #").next().unwrap() };
    code.trim_end()
}

//! `include/gpuzip_interrupt.cuh`: kernels leave off when a stop is requested, and the next start of the program runs
//! what is missing of them. The program `interrupt/sweeps.cu` runs on the software driver, whose queries of a stream
//! let a part of a kernel run: the program requests the stop in one of these queries.

use super::tools::{installed, interpreting};
use crate::common::{self, emu, needs};
use common::{folder_in_memory, library_of_tests, root, run, stdout, tempdir};
use std::path::{Path, PathBuf};
use std::process::Command;

const RUNTIME: &str = "c-examples/rtm3d_cuda/tests/cuda-runtime";
const INCLUDE: &str = "#include <gpuzip_interrupt.cuh>\n";

/// The built program, the folder of its driver, the folder of its files, and the driver's variables.
struct Sweeps {
    program: PathBuf,
    driver: PathBuf,
    files: PathBuf,
    variables: Vec<(&'static str, String)>,
}

/// What one start of the program did: its exit code and what it printed.
type Start = (i32, String);

impl Sweeps {
    /// Builds the program. With the folder of an NVRTC the kernels are its PTX, interpreted; otherwise they are
    /// compiled by the C++ compiler, after its preprocessor, since the driver finds no kernels that a macro makes.
    fn build(name: &str, nvrtc: Option<&str>) -> Self {
        let dir = tempdir(&format!("interrupt-{name}"));
        let source = root().join("tests/kernels/interrupt/sweeps.cu");
        let header = std::fs::read_to_string(root().join("include/gpuzip_interrupt.cuh")).unwrap();
        let text = std::fs::read_to_string(&source).unwrap();
        let text = text.replace("#include <cuda_runtime.h>\n", "");
        assert!(text.contains(INCLUDE));
        let kernels = dir.join("kernels.cu");
        std::fs::write(&kernels, text.replace(INCLUDE, &header)).unwrap();
        if nvrtc.is_none() {
            let mut command = Command::new("g++");
            command.args(["-E", "-P", "-D__CUDACC_RTC__", "-x", "c++"]);
            let expanded = stdout(&run(command.arg(&kernels)));
            std::fs::write(&kernels, expanded).unwrap();
        }
        let driver = emu::folder_with(&format!("interrupt-{name}"), &emu::driver());
        let (lib, program) = (library_of_tests().display(), dir.join("sweeps"));
        run(Command::new("g++")
            .args(["-std=c++11", "-O1", "-Wall", "-Wextra", "-Werror", "-rdynamic"])
            .args(["-D__CUDACC__", &format!("-DKERNELS=\"{}\"", kernels.display())])
            .args([RUNTIME, "include"].map(|path| format!("-I{}", root().join(path).display())))
            .args(["-x", "c++"])
            .arg(&source)
            .args(["-x", "none", &format!("-L{lib}"), "-lgpuzip", &format!("-Wl,-rpath,{lib}")])
            .args([&format!("-L{}", driver.display()), "-l:libcuda.so.1", "-l:libnvrtc.so", "-ldl"])
            .arg("-o")
            .arg(&program));
        let variables = nvrtc.map_or(vec![("CUDA_EMU_KERNELS", "host".into())], |folder| {
            let keep = |(name, _): &(&str, String)| *name != "CUDA_EMU_ARGUMENTS";
            interpreting(folder).into_iter().filter(keep).collect()
        });
        let files = folder_in_memory(&format!("interrupt-{name}"));
        Self { program, driver, files, variables }
    }

    /// Starts the program with the restart files in `files`. The `stop` is requested before that launch, at that
    /// query of a stream, or when so many blocks of a kernel are done or begun; 0: never.
    fn start(&self, files: &Path, seed: u64, stop: [u64; 3]) -> Start {
        let output = Command::new(&self.program)
            .arg(files)
            .arg(files.with_extension("result"))
            .args(stop.map(|number| number.to_string()))
            .env("LD_LIBRARY_PATH", &self.driver)
            .env("CUDA_EMU_MODE", "random")
            .env("CUDA_EMU_SEED", seed.to_string())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap();
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 3)), "seed {seed}, {stop:?}: {output:?}");
        let text = stdout(&output);
        assert!(!text.contains("a launch after the stop"), "seed {seed}, {stop:?}: {text}");
        (code.unwrap(), text)
    }

    /// Starts the program until all is done, each time with another moment of the stop. Returns what was printed.
    fn finish(&self, files: &Path, seed: u64) -> String {
        let mut printed = String::new();
        for start in 0..60 {
            let draw = seed * 1000 + start;
            let stop = match start % 6 {
                1 => [1 + start / 6 % 2, 0, 0],
                4 => [0, 1 + draw % 11, 0],
                _ => [0, 0, 1 + draw % 13],
            };
            let (code, text) = self.start(files, draw, stop);
            if stop[0] != 0 && code == 3 {
                let only = text.lines().last().unwrap_or_default();
                assert!(only.starts_with("interrupted "), "a stop before a launch: {text}");
            }
            printed += &text;
            if code == 0 {
                return printed;
            }
        }
        panic!("no end after 60 starts: {printed}");
    }

    /// Compares interrupted runs with one that is not, bit for bit. Returns the numbers of blocks that are done,
    /// begun and missing of each interrupted kernel.
    fn check(&self, seeds: u64) -> Vec<[u32; 3]> {
        let result = |files: &Path| std::fs::read(files.with_extension("result")).unwrap();
        let whole = self.files.join("whole");
        assert_eq!(self.start(&whole, 1, [0; 3]), (0, String::new()));
        let expected = result(&whole);
        assert!(expected.len() == 8 * 633 && expected.iter().any(|byte| *byte != 0));
        let mut all = Vec::new();
        for seed in 0..seeds {
            let cut = self.files.join(format!("cut-{seed}"));
            let printed = self.finish(&cut, seed);
            assert!(result(&cut) == expected, "seed {seed}");
            let interrupted: Vec<&str> =
                printed.lines().filter_map(|line| line.strip_prefix("interrupted ")).collect();
            // Every kernel that was interrupted has gone on.
            let more = printed.lines().filter(|line| *line == "goes on").count();
            assert_eq!(more, interrupted.len(), "{printed}");
            all.extend(interrupted.into_iter().map(|line| {
                let mut counts = line.split(' ').skip(1).map(|count| count.parse().unwrap());
                [(); 3].map(|()| counts.next().unwrap())
            }));
        }
        std::fs::remove_dir_all(&self.files).unwrap();
        println!("{all:?}");
        all
    }
}

/// Blocks run one after the other: some are done, the others have not begun.
#[test]
fn blocks_that_were_not_run_are_run_by_the_next_start() {
    needs!("g++");
    let all = Sweeps::build("host", None).check(2);
    assert!(all.iter().any(|[done, _, missing]| *done > 0 && *missing > 0));
    assert!(all.contains(&[0, 0, 20]));
}

/// NVIDIA's compiler takes the header, and blocks leave off between their iterations.
#[test]
fn blocks_that_have_left_off_go_on_with_their_next_iteration() {
    needs!("g++");
    let Some(folder) = installed("nvrtc.sh") else { return };
    let all = Sweeps::build("ptx", Some(&folder)).check(4);
    assert!(all.iter().any(|[_, begun, _]| *begun > 0));
    assert!(all.iter().any(|[done, _, missing]| *done > 0 && *missing > 0));
    assert!(all.contains(&[0, 0, 20]));
}

/// nvcc compiles host and device side without a warning.
#[test]
fn nvcc_takes_the_header() {
    let Some(nvcc) = installed("nvcc.sh") else { return };
    let object = tempdir("interrupt-nvcc").join("sweeps.o");
    run(Command::new(nvcc)
        .args([
            "-c",
            "-arch=sm_80",
            "-Werror",
            "all-warnings",
            "-Xcompiler",
            "-Wall,-Wextra,-Werror",
        ])
        .arg(format!("-I{}", root().join("include").display()))
        .arg(root().join("tests/kernels/interrupt/sweeps.cu"))
        .arg("-o")
        .arg(object));
}

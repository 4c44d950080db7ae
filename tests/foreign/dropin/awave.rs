//! An application of GPUZIP 2.x's users, built with the drop-in headers.

use super::*;

/// The source of an application of GPUZIP 2.x's users. The source is not in this repository: it is
/// read from the folder that `GPUZIP_SHARED` names, or else from `../shared`.
fn awave() -> Option<String> {
    let shared =
        std::env::var_os("GPUZIP_SHARED").map_or_else(|| root().join("../shared"), PathBuf::from);
    let source = shared.join("reference/awave_snippet.cpp");
    let text = fs::read_to_string(&source).ok();
    if text.is_none() {
        println!("skipped: {} is not there", source.display());
    }
    text
}

/// Builds `text` (see `awave`) after the `changes` (times, from, to): `from` occurs `times` times
/// in the text, and each occurrence is replaced by `to`.
fn build_awave(dir: &Path, flags: &[&str], text: &str, changes: &[(usize, &str, &str)]) -> PathBuf {
    let text = changes.iter().fold(text.to_string(), |text, (times, from, to)| {
        assert_eq!(text.matches(from).count(), *times, "{from}");
        text.replace(from, to)
    });
    let source = dir.join("awave.cpp");
    fs::write(&source, text).unwrap();
    build(
        dir,
        "awave",
        &[&["-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"], flags].concat(),
        &[source],
    )
}

#[test]
fn an_awave_program_runs_unmodified() {
    let (true, Some(text)) = (have("c++"), awave()) else { return };
    let dir = tempdir("dropin-awave");
    let mut program = PathBuf::new();
    for standard in ["-std=c++20", "-std=c++17", "-std=c++14"] {
        program = build_awave(&dir, &[standard], &text, &[]);
        expect(&program, &[], "identical\n");
    }
    for algorithm in 1..=4 {
        for cache in 0..=6 {
            for steps in ["1", "2", "7", "200"] {
                expect(
                    &program,
                    &[steps, &algorithm.to_string(), &cache.to_string()],
                    "identical\n",
                );
            }
        }
    }
}

/// The documents of GPUZIP 2.x also spell builders without `GPUZIPBuilders::`, a prefetch builder
/// that learns the extents from the first Save, and another folder of a header.
#[test]
fn an_awave_program_as_the_documents_spell_it() {
    let (true, Some(text)) = (have("c++"), awave()) else { return };
    let dir = tempdir("dropin-awave-spelling");
    let bare = (4, "GPUZIPBuilders::", "");
    let header = (1, "\"checkpointing/Checkpointing.hpp\"", "\"prefetch/Checkpointing.hpp\"");
    let extents = "(config, slab[d].n1, slab[d].n2, slab[d].n3, steps, chkpt)";
    let late = (1, extents, "(config, steps, chkpt)");
    let bytes = (1, extents, "(config, slab[d].len() * sizeof(float), steps, chkpt)");
    for changes in [&[header, bytes][..], &[late], &[bare, header, late]] {
        let program = build_awave(&dir, &["-std=c++14"], &text, changes);
        for algorithm in ["1", "2", "3", "4"] {
            for cache in ["0", "1", "3"] {
                expect(&program, &["50", algorithm, cache], "identical\n");
            }
        }
    }
}

#[test]
fn an_awave_program_replays_a_trace() {
    let (true, Some(text)) = (have("c++"), awave()) else { return };
    let dir = tempdir("dropin-awave-trace");
    let record = build_ours(&dir, "trace", &[]);
    let path = (
        1,
        "config->compressor = 0;",
        "config->compressor = 0;\n  config->trace_file_path = argv[4];",
    );
    let program = build_awave(&dir, &["-std=c++14"], &text, &[path]);
    for algorithm in ["1", "2", "3"] {
        let file = dir.join(format!("trace{algorithm}.txt"));
        fs::write(&file, run(Command::new(&record).args(["60", algorithm, "12"])).stdout).unwrap();
        for cache in 0..=6 {
            expect(
                &program,
                &["60", "0", &cache.to_string(), file.to_str().unwrap()],
                "identical\n",
            );
        }
    }
}

/// Compares the program's states with those of an uncompressed forward run. Where every state is
/// kept, the error in curr is at most the bound; the error in prev is at most twice the bound,
/// since prev is stored as its difference from curr. With other schedules each restart passes its
/// error, at most the bound, on to the recomputed steps.
#[test]
fn an_awave_program_with_codecs_stays_within_the_bound() {
    let (true, Some(text)) = (have("c++"), awave()) else { return };
    let compare = r#"static double worst_curr = 0, worst_prev = 0;

static double off(float a, float b) {
  const double e = std::abs(double(a) - double(b));
  return e < 1e30 ? e : 1e30;  // NaN as well
}

static void compare(const std::vector<Slab> &reversed, Slab s, int steps, int shot, size_t d) {
  s.reset(0.5f + static_cast<float>(shot) + 0.25f * static_cast<float>(d));
  for (int t = 0; t < steps; t++, s.forward())
    for (size_t i = 0; i < s.len(); i++) {
      const Slab &got = reversed[static_cast<size_t>(steps - 1 - t)];
      worst_curr = std::max(worst_curr, off(got.curr[i], s.curr[i]));
      worst_prev = std::max(worst_prev, off(got.prev[i], s.prev[i]));
    }
}

int main(int argc"#;
    let configure = "config->compressor = std::atoi(argv[4]);
  config->zfp_bit_rate = 16;
  config->error_bound_mode = 1;
  config->error_bound = std::atof(argv[5]);";
    let per_device = "    for (int d = 0; d < num_gpus; d++)\n      for (size_t k";
    let compared = format!("    for (int d = 0; d < num_gpus; d++) compare(reversed[d], slab[d], steps, shot, size_t(d));\n{per_device}");
    let changes = [
        (1, "int main(int argc", compare),
        (1, "config->compressor = 0;", configure),
        (1, per_device, &compared),
        (
            1,
            "std::puts(same ? \"identical\" : \"DIFFERENT\");",
            "std::printf(\"%g %g\\n\", worst_curr, worst_prev);",
        ),
        (1, "return same ? 0 : 1;", "return same ? 1 : 0;"),
    ];
    let program = build_awave(&tempdir("dropin-awave-codecs"), &["-std=c++14"], &text, &changes);
    let worst = |algorithm: &str, cache: &str, compressor: &str, bound: &str| -> [f64; 2] {
        let got =
            stdout(&run(Command::new(&program).args(["60", algorithm, cache, compressor, bound])));
        let numbers: Vec<f64> =
            got.split_whitespace().map(|number| number.parse().unwrap()).collect();
        numbers.try_into().unwrap()
    };
    for compressor in ["3", "4", "5"] {
        for bound in ["1e-3", "1e-5"] {
            let b: f64 = bound.parse().unwrap();
            let [curr, prev] = worst("6", "3", compressor, bound);
            assert!(
                curr > 0.0 && curr <= 1.001 * b && prev <= 2.001 * b,
                "codec {compressor}, bound {bound}: {curr} {prev}"
            );
            for (algorithm, cache) in [("1", "0"), ("1", "3"), ("2", "1"), ("3", "6"), ("4", "2")] {
                let [curr, prev] = worst(algorithm, cache, compressor, bound);
                assert!(
                    curr.max(prev) <= 60.0 * b,
                    "codec {compressor}, bound {bound}, algorithm {algorithm}: {curr} {prev}"
                );
            }
        }
    }
    // Codecs of a fixed size promise no bound; the limit here, 0.4, is a tenth of the amplitude and
    // far above the errors of these codecs.
    for compressor in ["1", "6", "7"] {
        let [curr, prev] = worst("1", "3", compressor, "0");
        assert!(curr.max(prev) <= 0.4, "codec {compressor}: {curr} {prev}");
    }
}

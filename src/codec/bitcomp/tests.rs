use super::super::fixed::tests::Sliced;
use super::library::PATH;
use super::*;
use crate::error::Code;
use crate::scalar::{Array, ArrayMut};
use proptest::prelude::*;
use std::path::PathBuf;
use std::process::Command;

/// A library that stands in for libnvcomp: it rounds values to multiples of COARSE * delta and
/// stores the upper three bytes of each result behind a header. Compiled without `COARSE`, it lacks
/// a function.
const STAND_IN: &str = r#"
    #include <math.h>
    #include <stdlib.h>
    #include <string.h>
    #ifndef COARSE
    #define COARSE 1
    #define LACKING
    #endif
    typedef struct { size_t n; int type; } Plan;
    typedef struct { size_t stored, n; int type, mode; } Head;
    int bitcompCreatePlan(Plan **plan, size_t n, int type, int mode, int algorithm) {
        *plan = malloc(sizeof(Plan));
        (*plan)->n = n, (*plan)->type = type;
        return !(mode == 1 && algorithm < 2);
    }
    int bitcompDestroyPlan(Plan *plan) { free(plan); return 0; }
    size_t bitcompMaxBuflen(size_t n) { return n + sizeof(Head); }
    #define CODE(name, real) \
        int name(Plan *plan, const real *x, char *to, real delta) { \
            size_t i, n = sizeof(real) == 4 ? plan->n / 4 : 0; \
            Head head = {sizeof head + 3 * n, plan->n, plan->type, 1}; \
            memcpy(to, &head, sizeof head); \
            for (i = 0; i < n; i++) { \
                float y = isfinite(x[i]) ? rint(x[i] / delta / COARSE) * delta * COARSE : x[i]; \
                memcpy(to + sizeof head + 3 * i, (char *)&y + 1, 3); \
            } \
            return 0; \
        }
    CODE(bitcompHostCompressLossy_fp32, float)
    CODE(bitcompHostCompressLossy_fp64, double)
    int bitcompHostUncompress(Plan *plan, const char *from, char *x) {
        size_t i;
        memset(x, 0, plan->n);
        for (i = 0; i < plan->n / 4; i++) memcpy(x + 4 * i + 1, from + sizeof(Head) + 3 * i, 3);
        return 0;
    }
    int bitcompGetCompressedSize(const Head *head, size_t *size) { *size = head->stored; return 0; }
    #ifndef LACKING
    int bitcompGetCompressedInfo(const Head *head, size_t *stored, size_t *n, int *type, int *mode, int *algorithm) {
        *stored = head->stored, *n = head->n, *type = head->type, *mode = head->mode, *algorithm = 0;
        return 0;
    }
    #endif
"#;

/// Compiles the stand-in with a preprocessor definition. Returns `None` if the machine has no C
/// compiler.
fn stand_in(name: &str, define: &str) -> Option<PathBuf> {
    let stem = std::env::temp_dir().join(format!("gpuzip-bitcomp-{}-{name}", std::process::id()));
    let (source, library) = (stem.with_extension("c"), stem.with_extension("so"));
    std::fs::write(&source, STAND_IN).unwrap();
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", define])
        .arg(&source)
        .arg("-o")
        .arg(&library)
        .arg("-lm")
        .status();
    std::fs::remove_file(source).unwrap();
    if status.is_err() {
        println!("skipped: no C compiler");
        return None;
    }
    assert!(status.unwrap().success());
    Some(library)
}

fn opened(name: &str, define: &str) -> Option<&'static Library> {
    let path = stand_in(name, define)?;
    let library = Library::open(&[path.to_str().unwrap()]).unwrap();
    std::fs::remove_file(path).unwrap();
    Some(Box::leak(Box::new(library)))
}

fn shape<T: Real>(n: usize) -> Shape {
    Shape { n: [n, 1, 1], scalar: T::SCALAR }
}

#[test]
fn a_missing_library_is_an_error_that_names_what_was_tried() {
    let error = Library::open(&["/nowhere/libnvcomp.so.6", "libnvcomp-of-nobody.so", "a\0b"])
        .err()
        .unwrap();
    assert_eq!(error.code, Code::Unsupported);
    for part in ["/nowhere/libnvcomp.so.6", "libnvcomp-of-nobody.so", "a\\0b", PATH, "No such file"]
    {
        assert!(error.message.contains(part), "{part:?} is not in {:?}", error.message);
    }
}

#[test]
fn a_missing_function_is_an_error_that_names_it() {
    let Some(path) = stand_in("lacking", "-DWHATEVER") else { return };
    let error = Library::open(&[path.to_str().unwrap()]).err().unwrap();
    std::fs::remove_file(path).unwrap();
    assert_eq!(error.code, Code::Unsupported);
    assert!(
        error.message.contains("bitcomp-")
            && error.message.contains("lacks bitcompGetCompressedInfo"),
        "{}",
        error.message
    );
}

#[test]
fn what_breaks_the_bound_is_not_given() {
    let (Some(fine), Some(coarse)) = (opened("fine", "-DCOARSE=1"), opened("coarse", "-DCOARSE=2"))
    else {
        return;
    };
    let mut x: Vec<f32> = (0..100).map(|i| (i as f32 / 5.0).sin()).collect();
    (x[3], x[4], x[5]) = (f32::NAN, f32::INFINITY, -0.0);
    let mut to = [0; 400];
    for bound in [Bound::Max(0.01), Bound::Rms(0.01)] {
        let mut coder = with(coarse, shape::<f32>(100), 0).unwrap();
        assert_eq!(
            coder.compress(Array::F32(&x), bound, &mut to).unwrap(),
            matches!(bound, Bound::Rms(_)).then_some(332)
        );
        let mut coder = with(fine, shape::<f32>(100), 1).unwrap();
        assert_eq!(coder.compress(Array::F32(&x), bound, &mut to).unwrap(), Some(332));
    }
    let mut coder = with(fine, shape::<f32>(100), 0).unwrap();
    for bound in [1e-50, -1.0, f64::NAN] {
        assert_eq!(coder.compress(Array::F32(&x), Bound::Max(bound), &mut to).unwrap(), None);
    }
    assert!(coder.compress(Array::F64(&[0.0; 100]), Bound::Max(1.0), &mut to).is_err());
    assert!(coder.compress(Array::F32(&[0.0; 99]), Bound::Max(1.0), &mut to).is_err());
    assert!(with(fine, shape::<f32>(100), 2).is_err());
}

#[test]
fn a_stream_of_something_else_is_refused() {
    let Some(library) = opened("else", "-DCOARSE=1") else { return };
    let mut coder = with(library, shape::<f32>(100), 0).unwrap();
    let mut to = [0; 400];
    let bytes = coder.compress(Array::F32(&[1.0; 100]), Bound::Max(0.1), &mut to).unwrap().unwrap();
    let mut x = [0.0; 100];
    assert!(coder.decompress(&to[..bytes], ArrayMut::F32(&mut x)).is_ok());
    for from in
        [&to[..bytes - 1], &to[..bytes + 1], &to[..0], &to[..7], &[0; 332], &[1; 500], &[9; 409]]
    {
        assert!(coder.decompress(from, ArrayMut::F32(&mut x)).is_err());
    }
    assert!(coder.decompress(&to[..bytes], ArrayMut::F64(&mut [0.0; 100])).is_err());
    let mut other = with(library, shape::<f32>(99), 0).unwrap();
    assert!(other.decompress(&to[..bytes], ArrayMut::F32(&mut x[..99])).is_err());
}

#[test]
fn configured_deltas() {
    for (mode, fraction, sigmas, delta) in [
        (0, 0.0, 1.0, 1.0),
        (0, 1e3, 1.0, 1.0),
        (1, 0.1, 0.0, 1.0),
        (1, 0.0, 1.0, 1.0),
        (1, 0.1, f64::NAN, 1.0),
        (2, 0.1, 1.0, 0.0),
    ] {
        assert_eq!(
            Delta::from_config(mode, fraction, sigmas, delta).unwrap_err().code,
            Code::Config
        );
    }
    for delta in [f64::NAN, f64::INFINITY, -1e-8] {
        assert!(
            Delta::from_config(2, 0.0, 0.0, delta).is_err()
                && Delta::from_config(0, delta, 0.0, 0.0).is_err()
        );
    }
    assert!(
        Delta::from_config(3, 0.1, 1.0, 1.0).is_err()
            && Delta::from_config(-1, 0.1, 1.0, 1.0).is_err()
    );

    let [fraction, range, fixed] =
        [0, 1, 2].map(|mode| Delta::from_config(mode, 0.01, 3.0, 1e-8).unwrap());
    let of =
        |x: &[f64]| [fraction, range, fixed].map(|delta| delta.of(&Statistics::of(Array::F64(x))));
    assert_eq!(
        of(&[1.0, -4.0, 1.0, 2.0, f64::NAN, f64::INFINITY]),
        [0.04, 0.01 * 6.0 * (5.5f64).sqrt(), 1e-8]
    );
    assert_eq!(of(&[7.0; 10]), [0.07, 0.07, 1e-8]);
    assert_eq!(of(&[0.0; 10]), [1.0, 1.0, 1e-8]);
    assert_eq!(of(&[f64::NAN]), [1.0, 1.0, 1e-8]);
    assert_eq!(of(&[5e-324, 0.0])[..2], [f64::MIN_POSITIVE; 2]);
    for delta in of(&[f64::MAX, -f64::MAX]) {
        assert!(delta > 0.0 && delta.is_finite());
    }
}

#[test]
fn deltas_are_powers_of_two() {
    assert_eq!(
        [1.0, 0.75, 3.9, 2f64.powi(-126)].map(power_within::<f32>),
        [Some(1.0), Some(0.5), Some(2.0), Some(f32::MIN_POSITIVE)]
    );
    assert_eq!(power_within::<f32>(1e-45), None);
    assert_eq!([5e-324, 0.0].map(power_within::<f64>), [None, None]);
    assert_eq!(power_within::<f32>(f64::MAX), Some(2f32.powi(127)));
    assert_eq!([f64::INFINITY, f64::NAN].map(power_within::<f64>), [Some(2f64.powi(1023)); 2]);
}

fn wanted() -> bool {
    std::env::var_os("GPUZIP_TEST_BITCOMP").is_some_and(|value| value == "1")
}

/// Returns NVIDIA's library if it is installed and the user wants it tested.
fn real() -> Option<&'static Library> {
    if !wanted() {
        println!("skipped: GPUZIP_TEST_BITCOMP is not 1");
        return None;
    }
    Library::get().map_err(|e| println!("skipped: {e}")).ok()
}

/// Codes and decodes with delta 1 and scaled values, as the kernels do, and returns the decoded
/// values.
fn by_unit<T: Real>(x: &[T], exponent: i64) -> Vec<T> {
    let library = Library::get().unwrap();
    let mut coder = Bitcomp::new(library, shape::<T>(x.len()), 0).unwrap();
    let down = T::power(-exponent as i32);
    let scaled: Vec<T> = x.iter().map(|&x| if x.is_finite() { x * down } else { x }).collect();
    let bytes = coder.quantised(&scaled, T::from_f64(1.0)).unwrap();
    let stream = coder.stream.iter().flat_map(|word| word.to_le_bytes()).take(bytes);
    let payload: Vec<u8> = exponent.to_le_bytes().into_iter().chain(stream).collect();
    let mut y = vec![T::from_f64(f64::NAN); x.len()];
    coder.decode(&payload, &mut y).unwrap();
    y
}

/// Codes and decodes an array and checks the bound. Returns false if the array was not coded.
fn check<T: Sliced>(x: &[T], bound: Bound) -> bool {
    let mut coder = coder(shape::<T>(x.len()), 0).unwrap();
    let mut to = vec![0; coder.max_bytes()];
    let Some(bytes) = coder.compress(T::array(x), bound, &mut to).unwrap() else { return false };
    let mut y = vec![T::from_f64(f64::NAN); x.len()];
    coder.decompress(&to[..bytes], T::array_mut(&mut y)).unwrap();
    if let Bound::Max(bound) = bound {
        let delta = power_within::<T>(2.0 * bound).unwrap().to_f64();
        let scaled = by_unit(x, delta.log2() as i64);
        assert!(
            y.iter().zip(&scaled).all(|(a, b)| a.to_bits() == b.to_bits()),
            "{y:?} became {scaled:?}"
        );
    }
    let mut square = 0.0;
    for (x, y) in x.iter().zip(&y) {
        let error = (x.to_f64() - y.to_f64()).abs();
        assert!(
            x.to_bits() == y.to_bits() || error <= bound.value() || matches!(bound, Bound::Rms(_)),
            "{x:?} became {y:?}"
        );
        square += if x.is_finite() { error * error } else { 0.0 };
    }
    assert!((square / x.len() as f64).sqrt() <= bound.value());
    assert!(
        coder.decompress(&to[..bytes - 1], T::array_mut(&mut y)).is_err()
            && coder.decompress(&[0; 64], T::array_mut(&mut y)).is_err()
    );
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if wanted() { 100 } else { 1 }))]
    #[test]
    fn real_bitcomp_keeps_the_bound(n in 1..300usize, scale in -60..60, digits in 1..20, seed: u64) {
        if real().is_none() {
            return Ok(());
        }
        let mut state = seed;
        let mut noise = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        };
        let mut x: Vec<f64> = (0..n).map(|i| ((i as f64 / 9.0).sin() + 0.1 * noise()) * 2f64.powi(scale)).collect();
        let bound = 2f64.powi(scale - digits) * 1.3;
        check(&x, Bound::Max(bound));
        let mut single: Vec<f32> = x.iter().map(|&x| x as f32).collect();
        check(&single, Bound::Rms(bound));
        (x[n / 2], x[n / 3], single[n / 2], single[n / 3]) = (f64::NAN, f64::INFINITY, f32::NAN, f32::NEG_INFINITY);
        check(&x, Bound::Rms(bound));
        check(&single, Bound::Max(bound));
    }
}

#[test]
fn real_bitcomp_on_real_wavefields() {
    let Some(library) = real() else { return };
    println!("{}", library.name);
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let shared =
        std::env::var_os("GPUZIP_SHARED").map_or_else(|| root.join("../shared"), Into::into);
    let Ok(bytes) = std::fs::read(shared.join("data/gempy2_3d_100x100x100_step0400_curr.f32"))
    else {
        println!("skipped: no wavefields (set GPUZIP_SHARED)");
        return;
    };
    let x: Vec<f32> = bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    let statistics = Statistics::of(Array::F32(&x));
    let mut coder = with(library, Shape { n: [100; 3], scalar: f32::SCALAR }, 0).unwrap();
    let mut to = vec![0; coder.max_bytes()];
    let deltas = [
        Delta::Fraction(2e-3),
        Delta::Range { fraction: 1e-3, sigmas: 3.0 },
        Delta::Static(1e-3 * statistics.peak),
    ];
    for delta in deltas {
        let bound = Bound::Max(delta.of(&statistics) / 2.0);
        assert!(check(&x, bound));
        let stored = coder.compress(Array::F32(&x), bound, &mut to).unwrap().unwrap();
        println!(
            "{delta:?}: bound {:.1e} of the maximum, ratio {:.2}",
            bound.value() / statistics.peak,
            bytes.len() as f64 / stored as f64
        );
    }
}

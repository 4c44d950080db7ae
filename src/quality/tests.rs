use super::*;
use crate::error::Code;

/// Values whose relative error is `error` and whose PSNR follows from it.
fn result(error: f64) -> Vec<Values> {
    let values = |k: usize| (k as f64 * 0.7).sin() * (1.0 + error);
    vec![Values::F64((0..100).map(values).collect())]
}

/// Gives the results of runs until no run is left. `error`: the error that a bound causes. Returns the
/// bounds of the runs with a codec, and the bound that is settled.
fn measure(quality: &mut Quality, error: impl Fn(f64) -> f64) -> Result<(Vec<f64>, f64)> {
    let mut tried = Vec::new();
    loop {
        let error = match quality.next_run() {
            Run::Raw => 0.0,
            Run::Coded(bound) => {
                tried.push(bound);
                error(bound)
            }
            Run::Settled(bound) => return Ok((tried, bound)),
        };
        let whole = quality.compare(result(error))?.to_vec();
        quality.judge(&whole)?;
    }
}

#[test]
fn a_bound_is_found_whose_error_is_about_half_of_what_is_asked() {
    for factor in [1e-2, 0.3, 1.4, 20.0] {
        let mut quality = Quality::new(Target::Gradient(1e-3), ErrorBound::OfMax(1e-3), false);
        let (tried, bound) = measure(&mut quality, |bound| factor * bound).unwrap();
        assert_eq!((tried[0], *tried.last().unwrap()), (1e-3, bound));
        assert!((3.9e-4..6.1e-4).contains(&(factor * bound)), "{factor}: {tried:?}");
        let found = quality.found();
        assert_eq!((found.bound, found.shots, found.runs as usize), (bound, 1, tried.len() + 1));
        assert!((found.settled_error / (factor * bound) - 1.0).abs() < 1e-9);
    }
}

#[test]
fn a_psnr_bound_is_searched_in_decibels() {
    let mut quality = Quality::new(Target::Image(60.0), ErrorBound::Psnr(30.0), true);
    let (tried, bound) = measure(&mut quality, |db| 3.0 * 10f64.powf(-db / 20.0)).unwrap();
    assert_eq!(tried[0], 60.0);
    assert!(
        quality.found().settled_error > 63.0 && quality.found().settled_error < 69.0,
        "{tried:?}"
    );
    assert_eq!(quality.found().bound, bound);
    assert_eq!((bound * 100.0).round() / 100.0, bound);
}

#[test]
fn the_configured_bound_is_the_loosest_one() {
    let mut quality = Quality::new(Target::Gradient(1e-2), ErrorBound::OfMax(1e-3), true);
    assert_eq!(measure(&mut quality, |bound| bound).unwrap(), (vec![1e-3], 1e-3));
    let mut absolute = Quality::new(Target::Gradient(1e-2), ErrorBound::Absolute(50.0), true);
    let (tried, bound) = measure(&mut absolute, |bound| 1e-2 * bound).unwrap();
    assert_eq!(tried[0], 50.0);
    assert!((0.39..0.61).contains(&bound), "{tried:?}");
}

#[test]
fn a_check_keeps_the_bound_or_makes_it_tighter() {
    let mut quality = Quality::new(Target::Gradient(1e-3), ErrorBound::OfMax(1e-3), false);
    let (_, bound) = measure(&mut quality, |bound| bound).unwrap();
    quality.check().unwrap();
    assert_eq!(measure(&mut quality, |bound| 1.9 * bound).unwrap(), (vec![bound], bound));
    quality.check().unwrap();
    assert_eq!(measure(&mut quality, |bound| 0.01 * bound).unwrap(), (vec![bound], bound));
    quality.check().unwrap();
    let (tried, tighter) = measure(&mut quality, |bound| 4.0 * bound).unwrap();
    assert_eq!(tried[0], bound);
    assert!((3.9e-4..6.1e-4).contains(&(4.0 * tighter)) && tighter < bound, "{tried:?}");
    assert_eq!((quality.found().shots, quality.found().bound), (4, tighter));
}

#[test]
fn calls_out_of_order_change_nothing() {
    let code = |result: Result<()>| result.unwrap_err().code;
    let mut quality = Quality::new(Target::Gradient(1e-3), ErrorBound::OfMax(1e-3), false);
    assert_eq!(code(quality.compare(result(0.0)).map(|_| ())), Code::State);
    assert_eq!(code(quality.check()), Code::State);
    quality.next_run();
    assert_eq!(code(quality.judge(&[])), Code::State);
    assert_eq!(quality.next_run(), Run::Raw);
    // A result with NaN is refused, and a right one is taken afterwards.
    let whole = quality.compare(result(f64::NAN)).unwrap().to_vec();
    assert_eq!(code(quality.judge(&whole)), Code::Values);
    assert_eq!(quality.next_run(), Run::Raw);
    let whole = quality.compare(result(0.0)).unwrap().to_vec();
    quality.judge(&whole).unwrap();
    // The next run was not asked for yet.
    assert_eq!(code(quality.judge(&whole)), Code::State);
    assert_eq!(code(quality.compare(result(0.0)).map(|_| ())), Code::State);
    assert_eq!((quality.next_run(), quality.next_run()), (Run::Coded(1e-3), Run::Coded(1e-3)));
    // Another number of values, and another type.
    assert_eq!(code(quality.compare(vec![Values::F64(vec![1.0])]).map(|_| ())), Code::Shape);
    assert_eq!(code(quality.compare(vec![Values::F32(vec![1.0; 100])]).map(|_| ())), Code::Shape);
    let whole = quality.compare(result(1e-3)).unwrap().to_vec();
    quality.judge(&whole).unwrap();
    assert_eq!(quality.next_run(), Run::Coded(5e-4));
}

#[test]
fn a_shot_whose_runs_differ_by_more_than_is_asked_is_refused() {
    let mut quality = Quality::new(Target::Gradient(1e-6), ErrorBound::OfMax(1e-3), false);
    let error = measure(&mut quality, |_| 1e-3).unwrap_err();
    assert_eq!(error.code, Code::Values);
    assert!(error.message.starts_with("quality = gradient:1e-6: no bound keeps it"), "{error}");
    assert!(error.message.contains("the result has an error of 1.00e-3: ask"), "{error}");
    let bound = error.message.split("error_bound = ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(bound.contains("e-") && bound.len() < 9, "{error}");
}

#[test]
fn errors_are_shown_with_three_digits() {
    let shown = |target: Target, error: f64| target.shown(target.in_unit(error));
    assert_eq!(shown(Target::Gradient(1e-3), 0.0009), "an error of 9.00e-4");
    assert_eq!(shown(Target::Gradient(1e-3), 3.0e16), "an error of 3.00e16");
    assert_eq!(shown(Target::Image(60.0), 1e-3), "a PSNR of 60.0 dB");
    for target in [Target::Gradient(1e-3), Target::Image(60.0)] {
        assert_eq!(shown(target, 0.0), "no error");
        assert!(shown(target, f64::INFINITY).starts_with("NaN or infinities"));
    }
}

#[test]
fn a_result_that_is_not_finite_with_a_loose_bound_makes_the_bound_tighter() {
    for target in [Target::Gradient(1e-3), Target::Image(60.0)] {
        for loose in [f64::NAN, f64::INFINITY, 1e200] {
            let mut quality = Quality::new(target, ErrorBound::OfMax(1e-3), false);
            let error = |bound: f64| if bound > 5e-4 { loose } else { 0.7 * bound };
            let (tried, bound) = measure(&mut quality, error).unwrap();
            assert!(tried[1] < tried[0] && bound <= 5e-4, "{loose}: {tried:?}");
            assert_eq!(quality.found().field, 0);
            // The same in a shot that is checked.
            quality.check().unwrap();
            let shot = |b: f64| if b >= bound { loose } else { 0.7 * b };
            let (tried, tighter) = measure(&mut quality, shot).unwrap();
            assert!(tighter < bound, "{loose}: {tried:?}");
        }
    }
}

#[test]
fn a_part_without_values_changes_nothing() {
    let none = || vec![Values::F64(Vec::new())];
    let mut quality = Quality::new(Target::Image(60.0), ErrorBound::OfMax(1e-3), false);
    quality.next_run();
    let empty = quality.compare(none()).unwrap()[0];
    assert_eq!((empty.difference, empty.norm, empty.count), (0.0, 0.0, 0.0));
    assert_eq!((empty.max, empty.max_negative), (f64::NEG_INFINITY, f64::NEG_INFINITY));
    // No rank has values.
    let error = quality.judge(&[empty]).unwrap_err();
    assert_eq!(error.code, Code::Values);
    assert!(
        error.message.starts_with("field 0 of the result: no rank gave values of it"),
        "{error}"
    );
    // Another rank has some.
    let mut other = Quality::new(Target::Image(60.0), ErrorBound::OfMax(1e-3), false);
    other.next_run();
    let whole = other.compare(result(0.0)).unwrap().to_vec();
    quality.judge(&whole).unwrap();
    assert_eq!(quality.next_run(), Run::Coded(1e-3));
    assert_eq!(quality.compare(result(0.0)).unwrap_err().code, Code::Shape);
    quality.compare(none()).unwrap();
}

#[test]
fn parts_of_ranks_give_what_the_whole_gives() {
    let pairs = |error: f64| (0..100).map(move |k| (k as f64 * 0.7).sin() * (1.0 + error));
    let part = |error: f64, rank: usize| {
        let values = pairs(error).skip(60 * rank).take(if rank == 0 { 60 } else { 40 });
        vec![Values::F64(values.collect())]
    };
    let open = || Quality::new(Target::Image(50.0), ErrorBound::OfMax(1e-3), false);
    let (mut ranks, mut whole) = ([open(), open()], open());
    let (_, bound) = measure(&mut whole, |bound| 2.0 * bound).unwrap();
    while let Run::Raw | Run::Coded(_) = ranks[0].next_run() {
        let run = ranks[1].next_run();
        let error = if let Run::Coded(bound) = run { 2.0 * bound } else { 0.0 };
        let [a, b] = [0, 1].map(|rank| ranks[rank].compare(part(error, rank)).unwrap()[0]);
        let both = Compared {
            difference: a.difference + b.difference,
            norm: a.norm + b.norm,
            count: a.count + b.count,
            max: a.max.max(b.max),
            max_negative: a.max_negative.max(b.max_negative),
        };
        ranks.iter_mut().for_each(|rank| rank.judge(&[both]).unwrap());
    }
    assert_eq!(ranks.map(|rank| rank.found().bound), [bound, bound]);
}

//! The choice of a codec by a profile.

use super::*;

#[test]
fn codecs_are_chosen_by_the_profile() {
    let chosen = |profile: Option<Profile>| {
        let mut session = open(&Config { profile, ..any_codec() });
        session.plan().unwrap();
        let stats = shot(&mut session);
        assert_eq!(
            stats.stored_bytes < stats.raw_bytes,
            session.compression().method != Method::None
        );
        session.compression().method.clone()
    };
    assert_eq!(chosen(None), Method::None);
    assert_eq!(chosen(Some(both(100.0, 10.0, 2.0))), Method::Lorenzo);
    assert_eq!(chosen(Some(both(100.0, 2.0, 10.0))), Method::Dct);
    assert_eq!(
        chosen(Some(both(0.001, 10.0, 10.0))),
        Method::None,
        "slower than doing steps again"
    );
    // Measurements of a codec with another error bound say nothing about the codec with the
    // configured bound.
    let mut other = both(100.0, 10.0, 10.0);
    other.codecs.iter_mut().for_each(|codec| codec.bound = 1e-4);
    assert_eq!(chosen(Some(other)), Method::None);
}

#[test]
fn named_algorithms_choose_codecs_too() {
    for algorithm in
        [Algorithm::Revolve, Algorithm::StoreAll, Algorithm::TwoLevel, Algorithm::Hrevolve]
    {
        let config = Config {
            algorithm: Some(algorithm),
            host_budget: 64 * STATE,
            profile: Some(both(100.0, 8.0, 2.0)),
            ..any_codec()
        };
        let mut session = open(&config);
        assert_eq!(shot(&mut session).backward_steps, u64::from(STEPS));
        assert_eq!(session.compression().method, Method::Lorenzo);
    }
}

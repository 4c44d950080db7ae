//! Finds the name that a mistyped name stands for.

/// Letters of the longest name that is compared.
const LONGEST: usize = 64;

/// Returns the name nearest to `word`: at most one letter in four is wrong, missing, superfluous or
/// swapped with the next letter. Case, underscores and hyphens do not count.
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let letters = letters_of(word);
    if letters.is_empty() || letters.len() > LONGEST {
        return None;
    }
    let distances = names.map(|name| (distance(&letters, &letters_of(name)), name));
    let near = distances.min_by_key(|(distance, _)| *distance);
    near.filter(|(distance, _)| *distance <= (letters.len() / 4).max(1)).map(|(_, name)| name)
}

/// Returns the first name that begins or ends with `word`, as `cache_capacity` ends with
/// `capacity`.
pub fn extended<'a>(word: &str, mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    names.find(|name| {
        let name = name.to_ascii_lowercase();
        name.strip_suffix(&word).is_some_and(|rest| rest.ends_with('_'))
            || name.strip_prefix(&word).is_some_and(|rest| rest.starts_with('_'))
    })
}

fn letters_of(name: &str) -> Vec<u8> {
    let letters = name.bytes().filter(|byte| !matches!(byte, b'_' | b'-'));
    letters.map(|byte| byte.to_ascii_lowercase()).collect()
}

/// Returns the Damerau-Levenshtein distance of two strings, in the variant that edits no part of a
/// string twice (optimal string alignment).
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut rows = [vec![0; b.len() + 1], (0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let [before, last] = &rows;
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        rows = [std::mem::take(&mut rows[1]), row];
    }
    rows[1][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("kitten", "sitting", 3),
            ("ab", "", 2),
            ("a", "b", 1),
        ] {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
        }
    }

    #[test]
    fn near_names_and_parts_of_names() {
        let names = || ["cache_capacity", "compressor", "log"].into_iter();
        let of = |word| nearest(word, names());
        assert_eq!(of("cache_capacty"), Some("cache_capacity"));
        assert_eq!(of("CacheCapacity"), Some("cache_capacity"));
        assert_eq!((of("lib"), of("dir"), of("capacity")), (None, None, None));
        assert_eq!((of(""), of("_"), of(&"x".repeat(1 << 20))), (None, None, None));
        assert_eq!(
            (extended("CAPACITY", names()), extended("acity", names())),
            (Some("cache_capacity"), None)
        );
    }
}

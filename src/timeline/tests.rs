//! The text of a timeline file.

use super::*;

fn span(row: Row, what: &'static str, begin: f64, seconds: f64) -> Span {
    Span { label: Label { row, what, ts: 3, ts_end: 3, it: 7, bytes: 0 }, begin, seconds }
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("gpuzip-trace-{}-{name}.json", std::process::id()))
}

/// The file has its closing brackets after every write.
#[test]
fn the_file_is_whole_after_every_shot() {
    let path = file("whole");
    let mut timeline =
        TimelineFile::create(&path, Object::new().text_of("device", "a \"host\"\n")).unwrap();
    let text = || std::fs::read_to_string(&path).unwrap();
    assert!(
        text().starts_with("{\"otherData\":{\"device\":\"a \\\"host\\\"\\u000a\"},"),
        "{}",
        text()
    );
    let mut before = 0;
    for shot in 0..3 {
        assert!(text().ends_with("}\n]}\n"));
        timeline
            .add(&[
                span(Row::Compute, "forward", shot as f64, 0.5),
                span(Row::Stall, "save", shot as f64 + 0.5, 0.25),
            ])
            .unwrap();
        timeline.end_shot(Object::new().value("shot", shot)).unwrap();
        assert_eq!(text().matches("\"name\":\"shot\"").count(), shot + 1);
        assert!(text().len() > before);
        before = text().len();
    }
    assert!(
        text().contains(r#""ts":1000000.000,"dur":500000.000,"name":"forward","cat":"compute""#),
        "{}",
        text()
    );
    assert!(text().contains(r#""shot":2,"begin_s":2,"makespan_s":0.75"#), "{}", text());
    std::fs::remove_file(&path).unwrap();
}

/// Rounding of begins and lengths makes no overlap, and changes no length.
#[test]
fn spans_of_a_row_do_not_overlap() {
    let path = file("overlap");
    let mut timeline = TimelineFile::create(&path, Object::new()).unwrap();
    timeline
        .add(&[span(Row::Codec, "copy", 1.0, 1e-6), span(Row::Codec, "copy", 1.0 + 0.9e-6, 2e-6)])
        .unwrap();
    timeline.flush().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.contains(r#""ts":1000000.000,"dur":1.000,"#)
            && text.contains(r#""ts":1000001.000,"dur":2.000,"#),
        "{text}"
    );
    std::fs::remove_file(&path).unwrap();
}

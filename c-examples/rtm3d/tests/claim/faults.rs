//! Folders of workers that are damaged, full, read-only or fail at any call.

use super::*;

/// A damaged file of a shot is found by its checksum, named, and computed again: every bit of the
/// header, bits of the sums, every kind of wrong length, and the file of another shot.
#[test]
fn damaged_shots_are_computed_again() {
    let shots = 3;
    let survey = Survey::new("damaged", QUICK, shots);
    let plain = survey.plain();
    run(&mut survey.worker(&[]));
    survey.check(shots, &plain);
    let (shot, sum) = (survey.file("shot-000002.image"), survey.file("sum.image"));
    let good = fs::read(&shot).unwrap();
    assert_eq!(good.len(), 72 + 2 * 12 * 20 * 4);
    let flipped = |at: usize, bit: u8| {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << bit;
        bytes
    };
    let mut damages: Vec<Vec<u8>> = (0..72).map(|at| flipped(at, (at % 8) as u8)).collect();
    damages.extend((72..good.len()).step_by(397).map(|at| flipped(at, (at % 8) as u8)));
    damages.extend([0, 1, 71, 72, 73, good.len() - 1].map(|length| good[..length].to_vec()));
    damages.push([&good[..], &[0]].concat());
    damages.push(vec![0; good.len()]);
    damages.push(fs::read(survey.file("shot-000001.image")).unwrap());
    damages.push(fs::read(&sum).unwrap());
    for (i, damage) in damages.iter().enumerate() {
        fs::write(&shot, damage).unwrap();
        let summed = survey.worker(&["--sum"]).output().unwrap();
        let text = told(&summed);
        assert_eq!(summed.status.code(), Some(1), "damage {i}: {text}");
        assert!(text.contains("shot-000002.image is damaged") && summed.stdout.is_empty());
        if i % 10 == 0 || i + 10 > damages.len() {
            fs::remove_file(&sum).unwrap();
            fs::write(survey.file("shot-000002.image.worker-gone-1-0.part"), &good[..99]).unwrap();
            let again = survey.worker(&[]).output().unwrap();
            let (json, text) = (stdout(&again), told(&again));
            assert!(again.status.success(), "{text}");
            assert_eq!((value(&json, "computed"), hashes(&json)), ("1", plain.1.clone()));
            assert!(text.contains("shot-000002.image is damaged"), "{text}");
            assert!(fs::read(&shot).unwrap() == good);
            survey.check(shots, &plain);
        }
    }
    println!("{} kinds of damage", damages.len());

    // A shot that is lost, and a damaged sum.
    fs::write(&shot, &good).unwrap();
    fs::remove_file(&shot).unwrap();
    let missing = survey.worker(&["--sum"]).output().unwrap();
    assert!(missing.status.code() == Some(1), "{}", told(&missing));
    assert!(told(&missing).contains("1 of 3 shots are not committed"), "{}", told(&missing));
    run(&mut survey.worker(&[]));
    fs::write(&sum, &good).unwrap();
    let json = stdout(&run(&mut survey.worker(&[])));
    assert_eq!((value(&json, "computed"), hashes(&json)), ("0", plain.1.clone()));
    survey.check(shots, &plain);
}

/// In a folder to which others may write, a link under a name that they can guess leads to a file of
/// theirs or of somebody else: no worker writes through a link.
#[test]
fn no_file_is_written_through_a_link_that_others_left() {
    let plain = Survey::new("link-plain", QUICK, 2).plain();
    // `$$` is the process number of the worker, too, which takes the shell's place. The last names
    // are those of workers that made their names from the process number.
    let plant = "for name in job.part job.worker-$(hostname)-$$-0.part sum.image.part \
        shot-000001.image.worker-$(hostname)-$$-0.part sum.image.worker-$(hostname)-$$-0.part \
        worker-$(hostname)-$$-0; do LINK ../victim survey/$name || exit 9; done; exec \"$@\"";
    for link in ["ln -s", "ln"] {
        let survey = Survey::new("link", QUICK, 2);
        fs::create_dir(survey.home.join("survey")).unwrap();
        fs::write(survey.home.join("victim"), "precious").unwrap();
        // Hard links are made from the folder of the survey's parent.
        let plant = plant.replace("LINK ../", if link == "ln" { "ln " } else { "ln -s ../" });
        let done = run(&mut survey.worker_within(&["sh", "-c", &plant, "sh"], &[]));
        assert_eq!(hashes(&stdout(&done)), plain.1);
        assert_eq!(fs::read_to_string(survey.home.join("victim")).unwrap(), "precious", "{link}");

        // The files of the results have fixed names.
        let image = survey.home.join("images/image.f32");
        fs::remove_file(&image).unwrap();
        match link {
            "ln" => fs::hard_link(survey.home.join("victim"), &image).unwrap(),
            _ => std::os::unix::fs::symlink("../victim", &image).unwrap(),
        }
        let refused = survey.worker(&["--sum"]).output().unwrap();
        assert_eq!(refused.status.code(), Some(1), "{link}: {}", told(&refused));
        assert_eq!(fs::read_to_string(survey.home.join("victim")).unwrap(), "precious", "{link}");
    }
}

/// Whether this process may mount file systems in a namespace of its own.
fn can_mount() -> bool {
    let able = have("unshare")
        && Command::new("unshare")
            .args(["-Urm", "sh", "-c", "mount -t tmpfs none /mnt"])
            .output()
            .is_ok_and(|output| output.status.success());
    if !able {
        println!("skipped in part: file systems cannot be mounted here");
    }
    able
}

/// A folder that cannot be written refuses workers, and --sum still reads it.
#[test]
fn a_read_only_folder_is_an_error_for_workers_only() {
    let survey = Survey::new("read-only", QUICK, 2);
    let plain = survey.plain();
    run(&mut survey.worker(&[]));
    if !can_mount() {
        return;
    }
    let script = "mount --bind survey survey && mount -o remount,ro,bind survey && exec \"$@\"";
    let within = ["unshare", "-Urm", "sh", "-c", script, "sh"];
    let refused = survey.worker_within(&within, &[]).output().unwrap();
    let text = told(&refused);
    assert!(refused.status.code() == Some(1), "{text}");
    assert!(
        text.contains("--claim survey: a worker cannot make its file there: Read-only"),
        "{text}"
    );
    fs::remove_dir_all(survey.home.join("images")).unwrap();
    run(&mut survey.worker_within(&within, &["--sum"]));
    survey.check(2, &plain);
}

/// Where shots do not fit, the worker says so and ends; what was committed stays, nothing half is
/// left, and with more space the survey goes on.
#[test]
fn a_full_disk_loses_nothing_that_was_committed() {
    let shots = 6;
    let survey = Survey::new("full", QUICK, shots);
    let plain = survey.plain();
    let limited = ["sh", "-c", "ulimit -f 1; exec \"$@\"", "sh"]; // 512 or 1024 bytes
    let refused = survey.worker_within(&limited, &[]).output().unwrap();
    let text = told(&refused);
    assert_eq!(refused.status.code(), Some(1), "{text}");
    let named = "shot 1 of 6 was computed, but shot-000001.image cannot be written: File too large";
    assert!(text.contains(named), "{text}");
    assert_eq!((survey.names(".image").len(), survey.names(".claim").len()), (0, 0));
    assert_eq!(survey.names(".part"), [""; 0]);

    if can_mount() {
        // Pages: job, worker's file, three shots; then a larger file system.
        let script = "mount -t tmpfs -o size=20k none survey && cp job survey/ && \"$@\"; code=$?; \
                      ls survey; mount -o remount,size=1m survey && shift 0 && \"$@\" && exit $code";
        fs::rename(survey.file("job"), survey.home.join("job")).unwrap();
        let within = ["unshare", "-Urm", "sh", "-c", script, "sh"];
        let output = survey.worker_within(&within, &[]).output().unwrap();
        let (text, listed) = (told(&output), stdout(&output));
        assert_eq!(output.status.code(), Some(1), "{text}{listed}");
        assert!(text.contains("cannot be written: No space left on device"), "{text}");
        assert!(!listed.contains(".part") && !listed.contains(".claim"), "{listed}");
        let last = listed.lines().last().unwrap();
        let computed = value(last, "computed").parse::<usize>().unwrap();
        assert!(computed > 0 && computed < shots, "{last}");
        assert_eq!(hashes(last), plain.1);
        fs::rename(survey.home.join("job"), survey.file("job")).unwrap();
    }
    run(&mut survey.worker(&[]));
    survey.check(shots, &plain);
}

/// For every n, a worker is killed at its n-th call that opens or changes a file, or that call
/// fails: the worker ends with an error, or makes the image; the next worker makes the image.
/// strace injects the faults.
#[test]
fn every_file_call_may_fail_or_be_the_last() {
    if !have("strace") {
        return;
    }
    let survey = Survey::new("calls", QUICK, 2);
    let plain = survey.plain();
    let calls = "mkdir,openat,write,fsync,linkat,renameat,unlinkat,utimensat";
    let traced = |fault: &str| {
        let _ = fs::remove_dir_all(survey.home.join("survey"));
        let _ = fs::remove_dir_all(survey.home.join("images"));
        let trace = format!("trace={calls}");
        let strace = ["strace", "-f", "-qq", "-o", "calls", "-e", &trace];
        let words = [&strace[..], &["-e", fault][..if fault.is_empty() { 0 } else { 2 }]].concat();
        survey.worker_within(&words, &[]).output().unwrap()
    };
    assert!(traced("").status.success());
    let text = fs::read_to_string(survey.home.join("calls")).unwrap();
    let process = text.split(' ').next().unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(process)).collect();
    // The calls before the survey's first one load libraries and open the session.
    let first = lines.iter().position(|line| line.contains("\"survey\"")).unwrap();
    // strace counts the calls of each name.
    let name = |at: usize| {
        let word = lines[at].split_whitespace().nth(1).unwrap();
        word.split('(').next().unwrap()
    };
    let of_its_name = |at: usize| (0..=at).filter(|k| name(*k) == name(at)).count();
    let mut tally = String::new();
    for (fault, step) in [("signal=KILL", 2), ("error=EIO", 3), ("error=ENOSPC", 5)] {
        let (mut ended, mut done) = (0, 0);
        for at in (first..lines.len()).step_by(if long() { 1 } else { step }) {
            let inject = format!("inject={}:{fault}:when={}", name(at), of_its_name(at));
            let output = traced(&inject);
            if output.status.success() {
                assert_eq!(hashes(&stdout(&output)), plain.1, "{inject}");
                done += 1;
            } else {
                let why = told(&output);
                let is_told = fault == "signal=KILL" || why.lines().any(|l| l.contains(": "));
                assert!(is_told, "{inject}: {why}");
                ended += 1;
            }
            let next = survey.worker(&[]).output().unwrap();
            assert!(next.status.success(), "after {inject}: {}", told(&next));
            assert_eq!(hashes(&stdout(&next)), plain.1, "after {inject}");
            assert!(survey.images("images") == plain.0, "after {inject}");
        }
        tally += &format!("{fault}: {ended} workers ended, {done} made the image; ");
    }
    println!("{} calls: {tally}", lines.len() - first);
}

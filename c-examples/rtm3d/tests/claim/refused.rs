//! Workers that are refused: of another survey, with another bound, with wrong options.

use super::*;

/// A worker with other options than the survey's is told which.
#[test]
fn a_worker_of_another_survey_is_refused() {
    let mut survey = Survey::new("refused", QUICK, 2);
    run(&mut survey.worker(&[]));
    let before = (survey.names(".image"), fs::read(survey.file("job")).unwrap());
    let model = survey.home.join("model.f32");
    let velocities = (0..12 * 20).flat_map(|_| 2000f32.to_le_bytes()).collect::<Vec<_>>();
    fs::write(&model, velocities).unwrap();
    let others = [
        ("--steps 61", "--steps 60", "--steps 61"),
        ("--n1 13", "--n1 12", "--n1 13"),
        ("--n2 21", "--n2 20", "--n2 21"),
        ("--dx 24", "--dx 25", "--dx 24"),
        ("--border 7", "--border 6", "--border 7"),
        ("--freq 3", "--freq ", "--freq 3"),
        ("--dt 0.001", "--dt ", "--dt 0.001"),
        ("--shots 3", "--shots 2", "--shots 3"),
        ("--every 2", "--every 1", "--every 2"),
        ("--gradient", "no --gradient", "--gradient"),
        ("--smooth 2", "smooth model", "smooth model"),
        // The other model has another largest velocity, too, which sets the time step.
        ("--model model.f32", "--dt ", "--dt "),
    ];
    for (options, there, here) in others {
        for sum in [&[][..], &["--sum"]] {
            let more = [&options.split(' ').collect::<Vec<_>>()[..], sum].concat();
            let refused = survey.worker(&more).output().unwrap();
            let text = told(&refused);
            assert_eq!(refused.status.code(), Some(2), "{options}: {text}");
            let named = text.contains(&format!("the survey there has {there}"))
                && text.contains(&format!("this worker has {here}"));
            assert!(named && refused.stdout.is_empty(), "{options}: {text}");
        }
    }
    for (key, value, named) in [
        ("COMPRESSOR", "dct", "the survey there has codec none, this worker has codec dct"),
        ("COMPRESSOR", "fp16", "this worker has codec fp16"),
    ] {
        survey.config = vec![(key, value)];
        let refused = survey.worker(&[]).output().unwrap();
        assert!(refused.status.code() == Some(2) && told(&refused).contains(named));
    }
    // Raw snapshots change no bit of the image: any schedule may compute a shot.
    survey.config = vec![("CHECKPOINTING_ALGORITHM", "revolve"), ("CHECKPOINTING_SNAPS", "3")];
    fs::remove_file(survey.file("shot-000001.image")).unwrap();
    run(&mut survey.worker(&[]));
    assert_eq!((survey.names(".image"), fs::read(survey.file("job")).unwrap()), before);
    assert_eq!(survey.names(".part"), [""; 0]);

    // Damaged, the description is not believed.
    let mut job = before.1;
    job[20] ^= 1;
    fs::write(survey.file("job"), &job).unwrap();
    let refused = survey.worker(&[]).output().unwrap();
    assert!(told(&refused).contains("its file job is damaged"), "{}", told(&refused));
    assert_eq!(refused.status.code(), Some(1));
}

/// Named pipes and folders in the place of the survey's files are told, and no worker waits for them.
#[test]
fn what_is_no_file_is_an_error_at_once() {
    for name in ["job", "shot-000001.claim-0", "shot-000001.image", "sum.image"] {
        for is_pipe in [true, false] {
            let survey = Survey::new("pipe", QUICK, 1);
            fs::create_dir(survey.home.join("survey")).unwrap();
            match is_pipe {
                true => drop(run(Command::new("mkfifo").arg(survey.file(name)))),
                false => fs::create_dir(survey.file(name)).unwrap(),
            }
            let ended = survey.worker_within(&["timeout", "60"], &[]).output().unwrap();
            let text = told(&ended);
            assert_eq!(ended.status.code(), Some(1), "{name}: {text}");
            assert!(text.contains(name) && text.contains("no regular file"), "{name}: {text}");
        }
    }
}

/// With lossy snapshots, the codec's bound and the schedule belong to the survey, and with mixed
/// storage the number of raw snapshots, too.
#[test]
fn lossy_workers_need_the_same_bound_and_schedule() {
    let base = vec![
        ("CHECKPOINTING_ALGORITHM", "revolve"),
        ("CHECKPOINTING_SNAPS", "5"),
        ("CACHE_CAPACITY", "2"),
        ("COMPRESSOR", "lorenzo"),
        ("ERROR_BOUND", "1e-3"),
    ];
    let mut survey = Survey::new("lossy", QUICK, 2);
    survey.config = base.clone();
    run(&mut survey.worker(&[]));
    for (key, value, named) in [
        ("ERROR_BOUND", "1e-4", "error_bound 0.001"),
        ("ERROR_BOUND_MODE", "range", "error_bound_mode 0"),
        ("CHECKPOINTING_SNAPS", "6", "snapshots 5"),
        ("CHECKPOINTING_ALGORITHM", "uniform", "algorithm revolve"),
    ] {
        survey.config = base.clone();
        survey.config.retain(|(name, _)| *name != key);
        survey.config.push((key, value));
        let refused = survey.worker(&[]).output().unwrap();
        let text = told(&refused);
        let named = text.contains(&format!("the survey there has {named}"));
        assert!(refused.status.code() == Some(2) && named, "{key} {value}: {text}");
    }
    let mut survey = Survey::new("lossy-mixed", QUICK, 2);
    survey.config = mixed();
    run(&mut survey.worker(&[]));
    survey.config.push(("DEVICE_BUDGET", "60K"));
    let refused = survey.worker(&[]).output().unwrap();
    let text = told(&refused);
    assert!(refused.status.code() == Some(2) && text.contains("there has raw_slots "), "{text}");
}

#[test]
fn options_of_workers_need_a_folder_and_exclude_others() {
    let survey = Survey::new("options", QUICK, 2);
    for (options, named) in [
        ("--sum", "--sum: is for workers; add --claim"),
        ("--no-wait", "--no-wait: is for workers; add --claim"),
        ("--lease 5", "--lease: is for workers; add --claim"),
        ("--only 1", "--only: is for workers; add --claim"),
        ("--claim s --only 3", "--only 3: the survey has 2 shots"),
        ("--claim s --only 2 --sum", "--only 2 --sum: a shot, or the sum of all"),
        ("--claim s --verify", "--claim s --verify: needs all shots in one process"),
        ("--claim s --gradient --taylor", "--claim s --taylor: needs all shots"),
        ("--claim s --sweep", "--claim s --sweep: needs all shots"),
        ("--claim s --dump-snapshots 3", "--claim s --dump-snapshots: needs all shots"),
        ("--claim s --tune", "--claim s --tune: every worker would plan"),
        ("--claim s --lease 0.5", "--lease 0.5: out of range"),
    ] {
        let refused =
            survey.command(&[], &options.split(' ').collect::<Vec<_>>()).output().unwrap();
        let text = told(&refused);
        assert!(refused.status.code() == Some(2) && text.contains(named), "{options}: {text}");
    }
    assert!(!survey.home.join("s").exists());
    for (folder, named) in [
        ("none/survey", "the folder cannot be made"),
        ("file", "the folder cannot be opened"),
        ("/proc/self", "a worker cannot make its file there"),
    ] {
        fs::write(survey.home.join("file"), "").unwrap();
        let refused = survey.command(&[], &["--claim", folder]).output().unwrap();
        let text = told(&refused);
        assert!(refused.status.code() == Some(1) && text.contains(named), "{folder}: {text}");
    }
}

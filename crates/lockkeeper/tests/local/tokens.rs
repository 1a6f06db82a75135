//! The token never goes back: not by a restart, not by deleting or restoring files.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use lockkeeper::Clock;
use lockkeeper::Error;
use lockkeeper::backend::{Backend, Entry, Standing};
use lockkeeper::backends::local::{Config, connect};

use crate::stage::{Stage, exclusive, order};

async fn next_order(backend: &Arc<dyn Backend>) -> u64 {
    let claim = exclusive("a");
    let order = order(backend.enter(&claim, Entry::Try).await.unwrap());
    backend.release(&claim).await.unwrap();
    order
}

fn boot(stage: &Stage, id: &str) -> Result<Arc<dyn Backend>, Error> {
    connect(&Config::at(&stage.path)?.as_if_booted(id), Clock::system())
}

fn copy_all(from: &Path, to: &Path, wanted: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_file() && wanted(&name) {
            fs::copy(entry.path(), to.join(name)).unwrap();
        }
    }
}

const BOOTS: [&str; 4] = [
    "00000000000000000000000000000001",
    "11111111111111110000000000000002",
    "22222222222222220000000000000003",
    "33333333333333330000000000000004",
];

// proves: F1, F2
#[tokio::test]
async fn it_rises_over_restarts_of_the_machine() {
    let stage = Stage::new();
    let mut last = 0;
    for id in BOOTS {
        let backend = boot(&stage, id).unwrap();
        // A claim that is never released: it dies with the machine.
        let order = order(backend.enter(&exclusive("a"), Entry::Try).await.unwrap());
        assert!(order > last, "{order} after {last}");
        last = order;
        assert_eq!(
            stage.databases().len(),
            1,
            "the claims of an earlier boot are deleted"
        );
        std::mem::forget(backend.clone());
        // What a killed process leaves: its pipe, with nobody behind it.
        for pipe in fs::read_dir(stage.path.join("alive")).unwrap() {
            fs::remove_file(pipe.unwrap().path()).unwrap();
        }
    }
}

// proves: F1, F2
#[tokio::test]
async fn it_rises_when_a_power_cut_takes_everything_that_was_not_flushed() {
    for lost in [&["gate"][..], &["claims"], &["gate", "claims"]] {
        let stage = Stage::new();
        let last = next_order(&boot(&stage, BOOTS[0]).unwrap()).await;
        for entry in fs::read_dir(&stage.path).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if lost.iter().any(|lost| name.starts_with(lost)) {
                // The file is there, but what was in it was never written.
                fs::write(entry.path(), vec![0; 64]).unwrap();
            }
        }
        let next = next_order(&boot(&stage, BOOTS[1]).unwrap()).await;
        assert!(next > last, "{next} after {last} without {lost:?}");
        // The same files, but no restart: nobody uses them, so they may be made anew.
        let again = next_order(&boot(&stage, BOOTS[1]).unwrap()).await;
        assert!(again > next);
    }
}

// proves: F1
#[tokio::test]
async fn it_rises_when_the_claims_or_the_gate_are_deleted_by_hand() {
    let stage = Stage::new();
    let mut last = next_order(&stage.connect()).await;
    for _ in 0..3 {
        stage.delete_claims();
        let next = next_order(&stage.connect()).await;
        assert!(next > last);
        fs::remove_file(stage.path.join("gate")).unwrap();
        last = next_order(&stage.connect()).await;
        assert!(last > next);
    }
}

// proves: F1
#[tokio::test]
async fn it_rises_when_an_old_copy_of_the_claims_is_restored() {
    let stage = Stage::new();
    next_order(&stage.connect()).await;
    let copy = tempfile::tempdir().unwrap();
    copy_all(&stage.path, copy.path(), |name| name.starts_with("claims"));
    let mut last = 0;
    for _ in 0..10 {
        last = next_order(&stage.connect()).await;
    }
    // Over the old files, and in their place.
    for round in 0..2 {
        if round == 1 {
            stage.delete_claims();
        }
        copy_all(copy.path(), &stage.path, |_| true);
        let next = next_order(&stage.connect()).await;
        assert!(next > last, "{next} after {last}");
        last = next;
    }
}

// proves: F1
#[tokio::test]
async fn a_gate_that_goes_back_under_a_living_keeper_is_seen() {
    let stage = Stage::new();
    let backend = stage.connect();
    next_order(&backend).await;
    let old = fs::read(stage.path.join("gate")).unwrap();
    next_order(&backend).await;
    fs::write(stage.path.join("gate"), old).unwrap();
    let error = backend
        .enter(&exclusive("a"), Entry::Try)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("went back"), "{error}");
}

// proves: L1, F1
#[tokio::test]
async fn a_missing_or_damaged_ceiling_grants_nothing() {
    let stage = Stage::new();
    next_order(&stage.connect()).await;
    let ceiling = stage.path.join("ceiling");
    let whole = fs::read(&ceiling).unwrap();
    for damage in [
        None,
        Some(&b""[..]),
        Some(&whole[..whole.len() - 3]),
        Some(&[0; 64]),
    ] {
        match damage {
            Some(damage) => fs::write(&ceiling, damage).unwrap(),
            None => fs::remove_file(&ceiling).unwrap(),
        }
        for id in BOOTS {
            let error = boot(&stage, id).unwrap_err();
            assert!(error.to_string().contains("nothing was granted"), "{error}");
        }
        let error = stage.try_connect().unwrap_err();
        assert!(error.to_string().contains("`ceiling`"), "{error}");
    }
    fs::write(&ceiling, &whole).unwrap();
    next_order(&stage.connect()).await;
}

// proves: L1
#[tokio::test]
async fn files_deleted_or_replaced_under_a_holder_grant_nothing() {
    for what in ["deleted", "replaced", "gate"] {
        let stage = Stage::new();
        let mut holder = stage.play("hold", "a");
        let held = holder.expect("holds");
        let bystander = stage.connect();
        match what {
            "deleted" => stage.delete_claims(),
            "replaced" => {
                let copy = tempfile::tempdir().unwrap();
                copy_all(&stage.path, copy.path(), |name| name.starts_with("claims"));
                stage.delete_claims();
                copy_all(copy.path(), &stage.path, |_| true);
            }
            _ => fs::remove_file(stage.path.join("gate")).unwrap(),
        }
        // Whoever came before may still see the holder; nobody may overlook it.
        match bystander.enter(&exclusive("a"), Entry::Try).await {
            Ok(standing) => assert_eq!(standing, Standing::Gone, "{what}"),
            Err(error) => {
                assert!(
                    error.to_string().contains("stop all users"),
                    "{what}: {error}"
                );
            }
        }
        let error = stage.try_connect().unwrap_err();
        assert!(error.is_unknown(), "{what}: {error}");
        holder.kill();
        let claim = exclusive("a");
        assert!(order(bystander.enter(&claim, Entry::Try).await.unwrap()) > held);
    }
}

//! A second look at tests that failed once.
//!
//! The tests stop processes, cut links and wait for leases on whatever machine they get, beside each other. A failure
//! that does not come back when the test runs alone is told aloud and listed at the end; one that comes back is red,
//! and so are more than a few. A law that saw two holders gets no second look: laws watch the machine themselves.

/// More than these in one run is not the machine.
const AT_MOST: usize = 5;

/// How a law says that it is broken, that the machine stood still meanwhile, and that exclusion was broken.
const LAW: &str = " is broken: ";
const NO_VERDICT: &str = "no verdict";
/// How it gives up. Of these there may be more: a machine that stands still does so for a while.
const UNDECIDED: &str = "no verdict in ";
const UNDECIDED_AT_MOST: usize = 40;
const NEVER: [&str; 2] = ["two holders", "granted against the rule"];

/// What failed in a run of `cargo test --no-fail-fast`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failures {
    /// How cargo names the programs that failed: `-p PACKAGE --test NAME`.
    targets: Vec<String>,
    /// The tests that failed in them.
    pub(crate) tests: Vec<String>,
}

impl Failures {
    /// Reads what cargo and the tests printed. `None` when it cannot be told exactly which tests failed, or when
    /// they deserve no second look.
    pub(crate) fn deserving(output: &str) -> Option<Failures> {
        let targets = failed_targets(output);
        let tests = failed_tests(output);
        let never = |law: &str| NEVER.iter().any(|words| law.contains(words));
        let verdict = |line: &&str| line.contains(LAW) && !line.starts_with(NO_VERDICT);
        let unsafe_for_sure = output.lines().filter(verdict).any(never);
        let undecided = output.lines().filter(|line| line.starts_with(UNDECIDED));
        let undecided = undecided.count().min(UNDECIDED_AT_MOST);
        let deserving = !targets.is_empty()
            && !unsafe_for_sure
            && targets.iter().all(|target| !target.contains("--doc"))
            && targets.len() <= tests.len()
            && tests.len() <= AT_MOST + undecided;
        deserving.then_some(Failures { targets, tests })
    }

    /// The arguments of cargo that run each of these tests alone: one command per program.
    pub(crate) fn commands(&self) -> impl Iterator<Item = Vec<&str>> {
        self.targets.iter().map(|target| {
            let mut arguments = vec!["test", "--all-features"];
            arguments.extend(target.split(' '));
            arguments.extend(["--", "--exact", "--test-threads=1"]);
            arguments.extend(self.tests.iter().map(String::as_str));
            arguments
        })
    }
}

/// How many tests passed in all the programs of this output.
pub(crate) fn passed(output: &str) -> usize {
    let results = output
        .lines()
        .filter_map(|line| line.strip_prefix("test result: ok. "));
    let count = |rest: &str| rest.split(' ').next()?.parse::<usize>().ok();
    results.filter_map(count).sum()
}

/// `error: 1 target failed:` and a line per program in backquotes.
fn failed_targets(output: &str) -> Vec<String> {
    let list = output
        .lines()
        .skip_while(|line| !(line.starts_with("error: ") && line.trim_end().ends_with("failed:")));
    let quoted = |line: &str| Some(line.trim().strip_prefix('`')?.strip_suffix('`')?.to_owned());
    list.skip(1).map_while(quoted).collect()
}

/// The last of the lists that each program prints after `failures:`, which holds names alone.
fn failed_tests(output: &str) -> Vec<String> {
    let mut tests = Vec::new();
    let mut inside = false;
    for line in output.lines() {
        match line.strip_prefix("    ") {
            Some(name) if inside && !name.starts_with(' ') => tests.push(name.to_owned()),
            _ => inside = line == "failures:",
        }
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "\
     Running tests/foreign.rs (target/debug/deps/foreign-1)
test go ... FAILED
test kazoo ... ok

failures:

---- go stdout ----

thread 'go' panicked:
    at nowhere

failures:
    go

test result: FAILED. 6 passed; 1 failed; 0 ignored
test result: ok. 12 passed; 0 failed; 0 ignored
error: 1 target failed:
    `-p lockkeeper-testbed --test foreign`
";

    #[test]
    fn one_failed_test_is_looked_at_again_alone() {
        let failures = Failures::deserving(ONE).unwrap();
        assert_eq!(failures.tests, ["go"]);
        let commands: Vec<_> = failures.commands().map(|words| words.join(" ")).collect();
        let alone = "test --all-features -p lockkeeper-testbed --test foreign -- --exact --test-threads=1 go";
        assert_eq!(commands, [alone]);
        assert_eq!(passed(ONE), 12);
    }

    #[test]
    fn many_failures_are_red_at_once() {
        let names: Vec<String> = (0..=AT_MOST)
            .map(|number| format!("    go{number}\n"))
            .collect();
        let many = ONE.replace("    go\n", &names.concat());
        assert_eq!(Failures::deserving(&many), None);
    }

    #[test]
    fn a_program_that_died_without_naming_a_test_is_red_at_once() {
        let died = ONE.replace("failures:\n    go\n", "");
        assert_eq!(Failures::deserving(&died), None);
    }

    #[test]
    fn laws_without_a_verdict_may_be_many() {
        let names: Vec<String> = (0..=AT_MOST)
            .map(|number| format!("    go{number}\n"))
            .collect();
        let many = ONE.replace("    go\n", &names.concat());
        let stood_still =
            "no verdict in 8 trials, at last it stood still for 1s: a::law is broken: late\n";
        let many = many.replace("    at nowhere", &stood_still.repeat(names.len()));
        assert_eq!(Failures::deserving(&many).unwrap().tests.len(), names.len());
    }

    #[test]
    fn a_law_that_saw_two_holders_is_red_at_once() {
        let law = "entering::a_storm is broken: two holders";
        let said = ONE.replace("    at nowhere", law);
        assert_eq!(Failures::deserving(&said), None);
        let none = ONE.replace(
            "    at nowhere",
            &format!("no verdict, it stood still: {law}"),
        );
        assert!(Failures::deserving(&none).is_some());
        // Without a watch on the machine the first may have lost it by then.
        let elsewhere = ONE.replace("    at nowhere", "two holders");
        assert!(Failures::deserving(&elsewhere).is_some());
    }

    #[test]
    fn examples_in_the_documentation_are_red_at_once() {
        let output = ONE.replace(
            "-p lockkeeper-testbed --test foreign",
            "-p lockkeeper --doc",
        );
        assert_eq!(Failures::deserving(&output), None);
    }

    #[test]
    fn a_build_that_fails_is_red() {
        assert_eq!(Failures::deserving("error: could not compile"), None);
    }
}

"""The line conversation that every foreign client has with its driver: see crates/testbed/src/foreign."""

import sys
import time

CYCLE_LEASE_S = 10.0


def say(text):
    print(text, flush=True)


def converse(acquire, release):
    """Answers the driver until it leaves.

    acquire(name, wait_s, lease_s) gives a lock or None; release(lock) says whether it was ours.
    """
    held = []
    say("ready")
    for line in sys.stdin:
        word, *arguments = line.split()
        if word == "exit":
            return
        try:
            say(answer(word, arguments, held, acquire, release))
        except Exception as problem:
            say("error " + " ".join(f"{type(problem).__name__}: {problem}".split()))


def answer(word, arguments, held, acquire, release):
    if word == "acquire":
        name, wait_ms, lease_ms = arguments
        lock = acquire(name, int(wait_ms) / 1000, int(lease_ms) / 1000)
        if lock is None:
            return "busy"
        held.append(lock)
        return "got"
    if word == "release":
        return "released" if release(held.pop()) else "not-mine"
    if word == "cycles":
        return "cycles " + " ".join(map(str, cycles(arguments, acquire, release)))
    raise ValueError(f"no such command: {word}")


def cycles(arguments, acquire, release):
    """Acquires and releases for some time; gives the nanoseconds of each cycle."""
    milliseconds, name = int(arguments[0]), arguments[1]
    end = time.monotonic_ns() + milliseconds * 1_000_000
    took, now = [], time.monotonic_ns()
    while now < end:
        lock = acquire(name, 60.0, CYCLE_LEASE_S)
        if lock is None:
            raise TimeoutError("not obtained within a minute")
        release(lock)
        before, now = now, time.monotonic_ns()
        took.append(now - before)
    return took

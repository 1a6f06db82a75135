"""`etcdctl lock` as a child process. Arguments: ETCDCTL HOST:PORT[,HOST:PORT...] PREFIX."""

import os
import select
import signal
import subprocess
import sys

from conversation import converse

etcdctl, endpoints, prefix = sys.argv[1:4]
# A lock that is asked for without waiting still takes the program a while.
AT_LEAST_S = 1.0


def start(name, lease_s):
    ttl = max(1, round(lease_s))
    lock = [etcdctl, "--endpoints=" + endpoints, "lock", f"--ttl={ttl}", prefix + name]
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "--", *lock],
        env={**os.environ, "ETCDCTL_API": "3"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )


def acquire(name, wait_s, lease_s):
    child = start(name, lease_s)
    # It prints the key once it holds.
    readable, _, _ = select.select([child.stdout], [], [], max(wait_s, AT_LEAST_S))
    if readable and child.stdout.readline():
        return child
    release(child)
    return None


def release(child):
    if child.poll() is not None:
        return False
    # It gives up its key when asked to end, holding or waiting.
    child.send_signal(signal.SIGINT)
    child.wait(timeout=10)
    return True


converse(acquire, release)

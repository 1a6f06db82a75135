"""kazoo's Lock recipe. Arguments: HOST:PORT[,HOST:PORT...] PREFIX."""

import sys

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

from conversation import converse

hosts, prefix = sys.argv[1], sys.argv[2]
clients, locks = [], {}


def session(lease_s):
    # The first acquire's lease is the session's timeout.
    if not clients:
        client = KazooClient(hosts=hosts, timeout=lease_s)
        client.start()
        clients.append(client)
    return clients[0]


def acquire(name, wait_s, lease_s):
    client = session(lease_s)
    lock = locks.setdefault(name, client.Lock(prefix + name, "kazoo"))
    try:
        got = lock.acquire(blocking=wait_s > 0, timeout=wait_s or None)
    except LockTimeout:
        return None
    return lock if got else None


def release(lock):
    ours = clients[0].exists(lock.path + "/" + lock.node) is not None
    return lock.release() and ours


converse(acquire, release)

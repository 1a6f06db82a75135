"""redis-py's own Lock. Arguments: HOST:PORT."""

import sys

import redis
from redis.exceptions import LockNotOwnedError

from conversation import converse

host, port = sys.argv[1].rsplit(":", 1)
client = redis.Redis(host=host, port=int(port))


def acquire(name, wait_s, lease_s):
    lock = client.lock(name, timeout=lease_s or None)
    got = lock.acquire(blocking=wait_s > 0, blocking_timeout=wait_s or None)
    return lock if got else None


def release(lock):
    try:
        lock.release()
        return True
    except LockNotOwnedError:
        return False


converse(acquire, release)

# SPDX-License-Identifier: Apache-2.0
"""A Kazoo contender that executes commands.

    kazoo_contend.py RECIPE HOST:PORT,... PATH [USER PASSWORD CERTIFICATE]

RECIPE is one of RECIPES. With a user it logs in by DIGEST-MD5, over TLS, to servers whose certificate is in the file.

Package contender documents the commands and the events. If the path is missing, acquire reports missing.
"""

import sys
import threading
import time

from kazoo import version
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import KazooState
from kazoo.recipe.lock import Lock, ReadLock, WriteLock


class QueueLock(Lock):
    """Kazoo's Lock with the names of Curator, zk.Lock and Lockkeeper. It waits for Kazoo's own names, too.

    Curator sorts its own nodes before those with Kazoo's names.
    """

    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["-lock-", "__lock__"]


# Without extra patterns Kazoo recognizes only its own node names, and acquires a lock that another library holds.
RECIPES = {
    "lock": lambda client, path: Lock(client, path, extra_lock_patterns=["-lock-"]),
    "queuelock": QueueLock,
    "readlock": ReadLock,
    "writelock": lambda client, path: WriteLock(
        client, path, extra_lock_patterns=["-lock-", "-__WRIT__", "-__READ__"]
    ),
}


def count(lock, file, times):
    for _ in range(times):
        with lock:
            with open(file) as counter:
                number = int(counter.read())
            with open(file, "w") as counter:
                counter.write(str(number + 1))


def report(event):
    sys.stdout.write("= %s\n" % event)
    sys.stdout.flush()


def cycle(crowd, times):
    """Acquires and releases each lock of the crowd, all at the same time, and returns how many nanoseconds that took."""

    def run(lock):
        for _ in range(times):
            with lock:
                pass

    threads = [threading.Thread(target=run, args=(lock,)) for lock in crowd]
    began = time.monotonic_ns()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic_ns() - began


def execute(connect, path, client, lock, crowd, command, *args):
    if command == "acquire":
        try:
            lock.acquire()
        except NoNodeError:
            return "missing"
        return "acquired"
    if command == "try":
        return "acquired" if lock.acquire(blocking=False) else "busy"
    if command == "release":
        lock.release()
        return "released"
    if command == "count":
        count(lock, args[0], int(args[1]))
        return "counted"
    if command == "crowd":
        for i in range(int(args[1])):
            if args[0] == "sessions":
                crowd.append(Lock(connect(), path))
            else:
                crowd.append(Lock(client, "%s-%d" % (path, i)))
        return "crowded"
    if command == "cycle":
        return "cycled %d" % cycle(crowd, int(args[0]))
    if command == "session":
        return "session %d" % client.client_id[0]
    raise ValueError(command)


def secured(user, password, certificate):
    login = {"mechanism": "DIGEST-MD5", "username": user, "password": password}
    return {"sasl_options": login, "use_ssl": True, "ca": certificate}


def main(recipe, servers, path, *login):
    def connect():
        client = KazooClient(hosts=servers, timeout=10, **(secured(*login) if login else {}))
        client.add_listener(lambda state: report("lost") if state == KazooState.LOST else None)
        client.start()
        return client

    client = connect()
    report("version %s" % version.__version__)
    lock = RECIPES[recipe](client, path)
    crowd = []
    for line in sys.stdin:
        if line.strip() == "renew":
            lock = RECIPES[recipe](client, path)
            report("renewed")
            continue
        report(execute(connect, path, client, lock, crowd, *line.split()))
    client.stop()
    client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

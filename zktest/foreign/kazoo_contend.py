# SPDX-License-Identifier: Apache-2.0
"""A Kazoo contender that executes commands.

    kazoo_contend.py HOST:PORT,... PATH

rival_test.go documents the commands on standard input, and the answers.
"""

import sys
import threading

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState


def count(lock, file, times):
    for _ in range(times):
        with lock:
            with open(file) as counter:
                number = int(counter.read())
            with open(file, "w") as counter:
                counter.write(str(number + 1))


def execute(client, lock, lost, command, *args):
    if command == "acquire":
        lock.acquire()
        return "acquired"
    if command == "try":
        return "acquired" if lock.acquire(blocking=False) else "busy"
    if command == "release":
        lock.release()
        return "released"
    if command == "count":
        count(lock, args[0], int(args[1]))
        return "counted"
    if command == "session":
        return client.client_id[0]
    if command == "lost":
        lost.wait()
        return "lost"
    raise ValueError(command)


def main(servers, path):
    client = KazooClient(hosts=servers, timeout=4)
    lost = threading.Event()
    client.add_listener(lambda state: lost.set() if state == KazooState.LOST else None)
    client.start()
    # Without the pattern Kazoo recognizes only its own node names, and acquires a lock that another library holds.
    lock = client.Lock(path, extra_lock_patterns=["-lock-"])
    for line in sys.stdin:
        print("= %s" % execute(client, lock, lost, *line.split()), flush=True)
    client.stop()
    client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

# SPDX-License-Identifier: Apache-2.0
"""A contender of Kazoo's that does what it is told.

    kazoo_contend.py HOST:PORT,... PATH

The commands on standard input, and the answers to them, stand in rival_test.go.
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


def obey(client, lock, lost, command, *args):
    if command == "take":
        lock.acquire()
        return "taken"
    if command == "try":
        return "taken" if lock.acquire(blocking=False) else "busy"
    if command == "leave":
        lock.release()
        return "left"
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
    # Without the pattern Kazoo sees its own kind only, and lets itself in while another holds.
    lock = client.Lock(path, extra_lock_patterns=["-lock-"])
    for line in sys.stdin:
        print("= %s" % obey(client, lock, lost, *line.split()), flush=True)
    client.stop()
    client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

# SPDX-License-Identifier: Apache-2.0
"""A Kazoo client that prints the states of its session, until its standard input is closed.

    kazoo_session.py HOST:PORT,... ROOT

It creates ROOT, watches its children and creates an ephemeral child, "own". It prints "state STATE SESSION" for each
state that Kazoo reports, with 0 for no session, and "children NAME,..." each time its watch fires.
"""

import sys

from kazoo.client import KazooClient


def main(servers, root):
    client = KazooClient(hosts=servers, timeout=4)
    client.add_listener(lambda state: print("state", state, (client.client_id or (0,))[0], flush=True))
    client.start()
    client.ensure_path(root)
    client.create(root + "/own", ephemeral=True)
    client.ChildrenWatch(root, lambda children: print("children", ",".join(sorted(children)), flush=True))
    for _ in sys.stdin:
        raise ValueError("standard input: this client takes no commands")
    client.stop()
    client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

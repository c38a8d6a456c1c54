# SPDX-License-Identifier: Apache-2.0
"""A client of Kazoo's that says what becomes of its session, until its standard input is closed.

    kazoo_session.py HOST:PORT,... ROOT

It makes ROOT, watches its children and makes one of them, "own", which is ephemeral. It prints "state STATE SESSION"
for each state that Kazoo reports, with 0 where there is no session, and "children NAME,..." each time it learns of them.
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
        raise ValueError("nothing is told to this client")
    client.stop()
    client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

# SPDX-License-Identifier: Apache-2.0
"""The common parts of the Kazoo tests."""

import logging
import sys
import threading
import unittest

from kazoo.client import KazooClient

BOUND = 20  # seconds, the bound of each wait; no test measures it


class Events:
    """The arguments of the calls of a watch or a callback, in order."""

    def __init__(self):
        self._received = []
        self._changed = threading.Condition()

    def __call__(self, *args):
        with self._changed:
            self._received.append(args[0] if len(args) == 1 else args)
            self._changed.notify_all()

    def until(self, wanted):
        """Returns the first event that wanted() accepts, and drops it and the earlier ones."""
        with self._changed:
            found = []

            def search():
                found[:] = [i for i, event in enumerate(self._received) if wanted(event)][:1]
                return found

            if not self._changed.wait_for(search, BOUND):
                raise AssertionError("the expected event did not arrive; received: %r" % (self._received,))
            event = self._received[found[0]]
            del self._received[: found[0] + 1]
            return event

    def next(self):
        return self.until(lambda event: True)


class Base(unittest.TestCase):
    servers = top = ""  # set by main

    def connect(self, **options):
        client = KazooClient(hosts=self.servers, timeout=4, **options)
        client.start(timeout=BOUND)
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        return client

    def setUp(self):
        self.root = "%s/%s" % (self.top, self.id().rpartition(".")[2])
        self.zk = self.connect()
        self.zk.ensure_path(self.root)

    def path(self, name):
        return "%s/%s" % (self.root, name)

    def thread(self, target, *args):
        """Runs target on a thread, and returns a function that joins it and raises its error."""
        failed = []

        def run():
            try:
                target(*args)
            except BaseException as err:  # raised by join
                failed.append(err)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()

        def join():
            thread.join(BOUND)
            self.assertFalse(thread.is_alive(), "the thread did not end")
            if failed:
                raise failed[0]

        return join


def main():
    """Runs the tests of the script, on the servers and below the root that its arguments name.

    The root does not exist yet. Each test uses its own path below it.
    """
    logging.basicConfig(level=logging.ERROR)
    Base.servers, Base.top = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], verbosity=2)

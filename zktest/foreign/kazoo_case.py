# SPDX-License-Identifier: Apache-2.0
"""What the tests of Kazoo have in common."""

import logging
import sys
import threading
import unittest

from kazoo.client import KazooClient

BOUND = 20  # seconds: no promise, only the end of waiting for what does not come


class Inbox:
    """What a watch or a callback was told, in order."""

    def __init__(self):
        self._told = []
        self._changed = threading.Condition()

    def __call__(self, *what):
        with self._changed:
            self._told.append(what[0] if len(what) == 1 else what)
            self._changed.notify_all()

    def until(self, wanted):
        """Returns the first thing told that wanted() accepts, and forgets it and those before."""
        with self._changed:
            found = []

            def look():
                found[:] = [i for i, one in enumerate(self._told) if wanted(one)][:1]
                return found

            if not self._changed.wait_for(look, BOUND):
                raise AssertionError("not told of what was waited for, but of %r" % (self._told,))
            one = self._told[found[0]]
            del self._told[: found[0] + 1]
            return one

    def next(self):
        return self.until(lambda one: True)


class Base(unittest.TestCase):
    servers = top = ""  # by main

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
        """Runs target; an error of it is the test's."""
        failed = []

        def run():
            try:
                target(*args)
            except BaseException as err:  # handed on below
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

    The root does not exist yet. Each test works at a path of its own below it.
    """
    logging.basicConfig(level=logging.ERROR)
    Base.servers, Base.top = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], verbosity=2)

# SPDX-License-Identifier: Apache-2.0
"""What Kazoo's users do every day, as Kazoo's own client does it.

    kazoo_api.py HOST:PORT,... ROOT

ROOT does not exist yet; the tests make it and work below it, each at a path of its own. The exit status and the last
lines are unittest's.
"""

import logging
import sys
import threading
import unittest

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    InvalidACLError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NoNodeError,
    NodeExistsError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.states import EventType, KazooState
from kazoo.recipe.cache import TreeCache
from kazoo.security import ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, Id, Permissions, make_acl, make_digest_acl

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
    def connect(self, **options):
        client = KazooClient(hosts=SERVERS, timeout=4, **options)
        client.start(timeout=BOUND)
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        return client

    def setUp(self):
        self.root = "%s/%s" % (ROOT, self.id().rpartition(".")[2])
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


class Nodes(Base):
    def test_every_mode_of_create_makes_its_node(self):
        zk = self.zk
        self.assertEqual(zk.create(self.path("plain"), b"data"), self.path("plain"))
        data, stat = zk.get(self.path("plain"))
        self.assertEqual((data, stat.version, stat.data_length, stat.numChildren), (b"data", 0, 4, 0))
        self.assertEqual((stat.ephemeralOwner, stat.czxid), (0, stat.mzxid))
        self.assertEqual(stat.ctime, stat.mtime)

        zk.create(self.path("ephemeral"), ephemeral=True)
        self.assertEqual(zk.exists(self.path("ephemeral")).ephemeralOwner, zk.client_id[0])
        numbers = [int(zk.create(self.path("s-"), sequence=True)[-10:]) for _ in range(2)]
        numbers.append(int(zk.create(self.path("s-"), sequence=True, ephemeral=True)[-10:]))
        self.assertEqual(numbers, [2, 3, 4])  # the parent has had two children

        deep, stat = zk.create(self.path("a/b/c"), b"deep", makepath=True, include_data=True)
        self.assertEqual((deep, stat), (self.path("a/b/c"), zk.exists(self.path("a/b/c"))))
        zk.ensure_path(self.path("a/b/d/e"))
        self.assertEqual(sorted(zk.get_children(self.path("a/b"))), ["c", "d"])

    def test_refusals_are_the_errors_that_kazoo_knows(self):
        zk, path = self.zk, self.path("node")
        zk.create(path)
        zk.create(path + "/child", ephemeral=True)
        for error, call in (
            (NodeExistsError, lambda: zk.create(path)),
            (NoNodeError, lambda: zk.create(self.path("no/where"))),
            (NoChildrenForEphemeralsError, lambda: zk.create(path + "/child/child")),
            (InvalidACLError, lambda: zk.create(self.path("acl"), acl=[ACL(31, Id("nonsense", "x"))])),
            (NoNodeError, lambda: zk.get(self.path("nowhere"))),
            (NoNodeError, lambda: zk.get_children(self.path("nowhere"))),
            (NoNodeError, lambda: zk.set(self.path("nowhere"), b"")),
            (NoNodeError, lambda: zk.delete(self.path("nowhere"))),
            (BadVersionError, lambda: zk.set(path, b"", version=7)),
            (BadVersionError, lambda: zk.delete(path + "/child", version=7)),
            (NotEmptyError, lambda: zk.delete(path)),
        ):
            with self.assertRaises(error):
                call()
        self.assertIsNone(zk.exists(self.path("nowhere")))

    def test_data_and_children_are_read_as_they_were_written(self):
        zk, path = self.zk, self.path("node")
        zk.create(path, b"one")
        self.assertEqual(zk.set(path, b"three", version=0).version, 1)
        data, stat = zk.get(path)
        self.assertEqual((data, stat.version, stat.data_length), (b"three", 1, 5))
        self.assertGreater(stat.mzxid, stat.czxid)
        self.assertEqual(zk.sync(path), path)

        for name in ("x", "y", "z"):
            zk.create(path + "/" + name)
        zk.delete(path + "/y")
        children, stat = zk.get_children(path, include_data=True)
        self.assertEqual(sorted(children), ["x", "z"])
        self.assertEqual((stat.numChildren, stat.cversion), (2, 4))
        zk.delete(path, recursive=True)
        self.assertIsNone(zk.exists(path))

        zk.create(path, b"\x00\xff" * 200000)
        self.assertEqual(zk.get(path)[0], b"\x00\xff" * 200000)

    def test_asynchronous_calls_are_answered_in_order(self):
        zk = self.zk
        creates = [zk.create_async(self.path("n%03d" % i), b"%d" % i) for i in range(200)]
        gets = [zk.get_async(self.path("n%03d" % i)) for i in range(200)]
        self.assertEqual([c.get(BOUND) for c in creates], [self.path("n%03d" % i) for i in range(200)])
        stats = [g.get(BOUND)[1] for g in gets]
        self.assertEqual([s.czxid for s in stats], sorted(s.czxid for s in stats))
        self.assertEqual(len(zk.get_children_async(self.root).get(BOUND)), 200)
        self.assertIsNotNone(zk.exists_async(self.path("n007")).get(BOUND))
        self.assertEqual(zk.set_async(self.path("n007"), b"").get(BOUND).version, 1)
        zk.delete_async(self.path("n007")).get(BOUND)
        with self.assertRaises(NoNodeError):
            zk.get_async(self.path("n007")).get(BOUND)

    def test_a_chroot_hides_what_is_above_it(self):
        zk = KazooClient(hosts=SERVERS + self.root, timeout=4)
        zk.start(timeout=BOUND)
        self.addCleanup(zk.close)
        self.addCleanup(zk.stop)
        self.assertEqual(zk.create("/inside", b"x"), "/inside")
        self.assertEqual(self.zk.get(self.path("inside"))[0], b"x")
        self.assertEqual(zk.get_children("/"), ["inside"])

    def test_four_letter_words_are_answered(self):
        self.assertEqual(self.zk.command(b"ruok"), "imok")
        self.assertGreaterEqual(self.zk.server_version(), (3, 8))
        self.assertIn("Node count:", self.zk.command(b"srvr"))


class Transactions(Base):
    def test_a_transaction_is_carried_out_whole(self):
        zk = self.zk
        zk.create(self.path("old"), b"")
        t = zk.transaction()
        t.check(self.path("old"), 0)
        t.create(self.path("new"), b"1")
        t.create(self.path("new/s-"), sequence=True, ephemeral=True)
        t.set_data(self.path("new"), b"2", version=0)
        t.delete(self.path("old"), version=0)
        checked, made, numbered, stat, deleted = t.commit()
        self.assertEqual((checked, made, deleted), (True, self.path("new"), True))
        self.assertEqual(numbered, self.path("new/s-0000000000"))
        self.assertEqual((stat.version, stat.numChildren, stat.mzxid), (1, 1, stat.czxid))
        self.assertIsNone(zk.exists(self.path("old")))
        self.assertEqual(zk.get(self.path("new")), (b"2", stat))

    def test_a_transaction_that_fails_leaves_nothing(self):
        zk = self.zk
        with zk.transaction() as t:
            t.create(self.path("first"))
        t = zk.transaction()
        t.create(self.path("second"))
        t.check(self.path("first"), 7)
        t.create(self.path("third"))
        kinds = [type(result) for result in t.commit()]
        self.assertEqual(kinds, [RolledBackError, BadVersionError, RuntimeInconsistency])
        self.assertEqual(zk.get_children(self.root), ["first"])


class Watches(Base):
    def test_watches_tell_once_of_each_kind_of_change(self):
        zk, other, path, told = self.zk, self.connect(), self.path("node"), Inbox()
        self.assertIsNone(zk.exists(path, watch=told))
        other.create(path)
        zk.get(path, watch=told)
        other.set(path, b"1")
        other.set(path, b"2")
        zk.get_children(path, watch=told)
        other.create(path + "/child")
        zk.exists(path + "/child", watch=told)
        other.delete(path + "/child")
        for kind, where in (
            (EventType.CREATED, path),
            (EventType.CHANGED, path),
            (EventType.CHILD, path),
            (EventType.DELETED, path + "/child"),
        ):
            event = told.next()
            self.assertEqual((event.type, event.path), (kind, where))

    def test_data_watch_follows_a_node_through_its_deletion(self):
        zk, other, path, told = self.zk, self.connect(), self.path("node"), Inbox()

        @zk.DataWatch(path)
        def follow(data, stat, event):
            told(data)

        self.assertIsNone(told.next())
        other.create(path, b"1")
        self.assertEqual(told.next(), b"1")
        other.set(path, b"2")
        self.assertEqual(told.next(), b"2")
        other.delete(path)
        self.assertIsNone(told.next())
        other.create(path, b"3")
        self.assertEqual(told.next(), b"3")

    def test_children_watch_follows_the_children(self):
        zk, other, told = self.zk, self.connect(), Inbox()

        @zk.ChildrenWatch(self.root)
        def follow(children):
            told(sorted(children))

        self.assertEqual(told.next(), [])
        other.create(self.path("a"))
        self.assertEqual(told.next(), ["a"])
        other.create(self.path("b"))
        self.assertEqual(told.next(), ["a", "b"])
        other.delete(self.path("a"))
        self.assertEqual(told.next(), ["b"])

    def test_tree_cache_sees_the_whole_tree(self):
        zk, other, told = self.zk, self.connect(), Inbox()
        cache = TreeCache(zk, self.root)
        cache.listen(lambda event: told(event.event_data.path if event.event_data else None))
        cache.start()
        self.addCleanup(cache.close)
        told.until(lambda path: path == self.root)
        other.create(self.path("a/b"), b"x", makepath=True)
        told.until(lambda path: path == self.path("a/b"))
        self.assertEqual(cache.get_data(self.path("a/b")).data, b"x")


class Permission(Base):
    def test_digest_acl_keeps_others_out(self):
        zk, other, path = self.zk, self.connect(), self.path("secret")
        zk.add_auth("digest", "ann:pw")
        zk.create(path, b"s", acl=[make_digest_acl("ann", "pw", all=True)])
        for call in (
            lambda: other.get(path),
            lambda: other.set(path, b""),
            lambda: other.get_children(path),
            lambda: other.create(path + "/child"),
            lambda: other.set_acls(path, OPEN_ACL_UNSAFE),
            lambda: other.get_acls(path),
        ):
            with self.assertRaises(NoAuthError):
                call()
        self.assertIsNotNone(other.exists(path))
        other.add_auth("digest", "ann:pw")
        self.assertEqual(other.get(path)[0], b"s")
        presented = self.connect(auth_data=[("digest", "ann:pw")])
        self.assertEqual(presented.get(path)[0], b"s")

    def test_acls_are_read_as_they_were_set(self):
        zk, path = self.zk, self.path("node")
        zk.create(path)
        acls, stat = zk.get_acls(path)
        self.assertEqual((acls, stat.aversion), (OPEN_ACL_UNSAFE, 0))
        wanted = [make_acl("world", "anyone", read=True, admin=True), make_acl("ip", "127.0.0.1", write=True)]
        self.assertEqual(zk.set_acls(path, wanted, version=0).aversion, 1)
        self.assertEqual(zk.get_acls(path)[0], wanted)
        with self.assertRaises(BadVersionError):
            zk.set_acls(path, READ_ACL_UNSAFE, version=0)
        with self.assertRaises(InvalidACLError):
            zk.set_acls(path, [ACL(Permissions.ALL, Id("ip", "no address"))])

    def test_auth_scheme_stands_for_those_presented(self):
        zk, path = self.zk, self.path("mine")
        zk.add_auth("digest", "bob:pw")
        zk.create(path, acl=[ACL(Permissions.ALL, Id("auth", ""))])
        self.assertEqual(zk.get_acls(path)[0], [make_digest_acl("bob", "pw", all=True)])


class Recipes(Base):
    def test_lock_excludes_and_is_handed_on(self):
        zk, other, told = self.zk, self.connect(), Inbox()
        first, second = zk.Lock(self.root, "first"), other.Lock(self.root, "second")
        self.assertTrue(first.acquire(timeout=BOUND))
        self.assertFalse(second.acquire(blocking=False))
        join = self.thread(lambda: told(second.acquire(timeout=BOUND)))
        self.wait_for(lambda: first.contenders() == ["first", "second"])
        first.release()
        self.assertTrue(told.next())
        join()
        self.assertEqual(first.contenders(), ["second"])
        second.release()

    def test_election_runs_one_leader_after_the_other(self):
        zk, other, told = self.zk, self.connect(), Inbox()
        stop = threading.Event()
        first, second = zk.Election(self.root, "first"), other.Election(self.root, "second")

        def lead(name):
            told(name)
            self.assertTrue(stop.wait(BOUND))

        join_first = self.thread(first.run, lead, "first")
        self.assertEqual(told.next(), "first")
        join_second = self.thread(second.run, lead, "second")
        self.wait_for(lambda: first.contenders() == ["first", "second"])
        stop.set()
        self.assertEqual(told.next(), "second")
        join_first()
        join_second()

    def test_readers_share_and_a_writer_excludes(self):
        zk, other = self.zk, self.connect()
        reader, second = zk.ReadLock(self.root), other.ReadLock(self.root)
        writer = other.WriteLock(self.root)
        self.assertTrue(reader.acquire(timeout=BOUND))
        self.assertTrue(second.acquire(timeout=BOUND))
        self.assertFalse(writer.acquire(blocking=False))
        reader.release()
        second.release()
        self.assertTrue(writer.acquire(timeout=BOUND))
        writer.release()

    def test_semaphore_admits_as_many_as_it_says(self):
        zk, other = self.zk, self.connect()
        leases = [client.Semaphore(self.path("leases"), max_leases=2) for client in (zk, other, other)]
        self.assertTrue(leases[0].acquire(timeout=BOUND))
        self.assertTrue(leases[1].acquire(timeout=BOUND))
        self.assertFalse(leases[2].acquire(blocking=False))
        leases[0].release()
        self.assertTrue(leases[2].acquire(timeout=BOUND))

    def test_counter_loses_no_count(self):
        counters = [self.connect().Counter(self.path("count")) for _ in range(3)]

        def count(counter):
            for _ in range(10):
                counter += 1

        for join in [self.thread(count, counter) for counter in counters]:
            join()
        self.assertEqual(counters[0].value, 30)

    def test_queues_hand_out_what_was_put_in(self):
        queue, locking = self.zk.Queue(self.path("q")), self.connect().LockingQueue(self.path("lq"))
        for item in (b"a", b"b"):
            queue.put(item)
            locking.put(item)
        self.assertEqual([queue.get(), queue.get(), queue.get()], [b"a", b"b", None])
        self.assertEqual(locking.get(timeout=BOUND), b"a")
        self.assertTrue(locking.consume())
        self.assertEqual(locking.get(timeout=BOUND), b"b")
        self.assertTrue(locking.consume())

    def test_party_barrier_and_double_barrier_meet(self):
        zk, other = self.zk, self.connect()
        parties = [zk.Party(self.path("party"), "one"), other.Party(self.path("party"), "two")]
        for party in parties:
            party.join()
        self.assertEqual(sorted(parties[0]), ["one", "two"])
        parties[1].leave()
        self.assertEqual(list(parties[0]), ["one"])

        barrier = zk.Barrier(self.path("barrier"))
        barrier.create()
        join = self.thread(lambda: self.assertTrue(other.Barrier(self.path("barrier")).wait(BOUND)))
        barrier.remove()
        join()

        def meet(client):
            double = client.DoubleBarrier(self.path("double"), 2)
            double.enter()
            double.leave()

        for join in [self.thread(meet, client) for client in (zk, other)]:
            join()

    def wait_for(self, condition):
        """Waits for what another client does, woken by the changes below the test's path."""
        changed = threading.Event()

        @self.zk.ChildrenWatch(self.root)
        def follow(children):
            changed.set()

        while not condition():
            self.assertTrue(changed.wait(BOUND), "it did not come about")
            changed.clear()


class Sessions(Base):
    def test_a_client_that_stops_takes_its_ephemeral_nodes_along(self):
        told, states, leaver = Inbox(), Inbox(), KazooClient(hosts=SERVERS, timeout=4)
        leaver.add_listener(states)
        leaver.start(timeout=BOUND)
        self.assertEqual(states.next(), KazooState.CONNECTED)
        leaver.create(self.path("e"), ephemeral=True)
        self.zk.exists(self.path("e"), watch=told)
        leaver.stop()
        leaver.close()
        self.assertEqual(states.next(), KazooState.LOST)
        self.assertEqual(told.next().type, EventType.DELETED)

    def test_a_client_that_starts_again_has_a_new_session(self):
        zk = self.connect()
        before = zk.client_id[0]
        zk.restart()
        self.assertNotEqual(zk.client_id[0], before)
        self.assertIsNone(zk.exists(self.path("nowhere")))


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    SERVERS, ROOT = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], verbosity=2)

# SPDX-License-Identifier: Apache-2.0
"""Kazoo's watches and recipes, as its users write them.

    kazoo_recipes.py HOST:PORT,... ROOT
"""

import threading

from kazoo.protocol.states import EventType
from kazoo.recipe.cache import TreeCache

from kazoo_case import BOUND, Base, Inbox, main


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


if __name__ == "__main__":
    main()

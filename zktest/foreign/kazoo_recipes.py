# SPDX-License-Identifier: Apache-2.0
"""Kazoo's watches and recipes, as its users write them.

    kazoo_recipes.py HOST:PORT,... ROOT
"""

import threading

from kazoo.protocol.states import EventType
from kazoo.recipe.cache import TreeCache

from kazoo_case import BOUND, Base, Events, main


class Watches(Base):
    def test_watches_fire_once_for_each_kind_of_change(self):
        zk, other, path, events = self.zk, self.connect(), self.path("node"), Events()
        self.assertIsNone(zk.exists(path, watch=events))
        other.create(path)
        zk.get(path, watch=events)
        other.set(path, b"1")
        other.set(path, b"2")
        zk.get_children(path, watch=events)
        other.create(path + "/child")
        zk.exists(path + "/child", watch=events)
        other.delete(path + "/child")
        for kind, where in (
            (EventType.CREATED, path),
            (EventType.CHANGED, path),
            (EventType.CHILD, path),
            (EventType.DELETED, path + "/child"),
        ):
            event = events.next()
            self.assertEqual((event.type, event.path), (kind, where))

    def test_data_watch_follows_a_node_through_its_deletion(self):
        zk, other, path, events = self.zk, self.connect(), self.path("node"), Events()

        @zk.DataWatch(path)
        def follow(data, stat, event):
            events(data)

        self.assertIsNone(events.next())
        other.create(path, b"1")
        self.assertEqual(events.next(), b"1")
        other.set(path, b"2")
        self.assertEqual(events.next(), b"2")
        other.delete(path)
        self.assertIsNone(events.next())
        other.create(path, b"3")
        self.assertEqual(events.next(), b"3")

    def test_children_watch_follows_the_children(self):
        zk, other, events = self.zk, self.connect(), Events()

        @zk.ChildrenWatch(self.root)
        def follow(children):
            events(sorted(children))

        self.assertEqual(events.next(), [])
        other.create(self.path("a"))
        self.assertEqual(events.next(), ["a"])
        other.create(self.path("b"))
        self.assertEqual(events.next(), ["a", "b"])
        other.delete(self.path("a"))
        self.assertEqual(events.next(), ["b"])

    def test_tree_cache_sees_the_whole_tree(self):
        zk, other, events = self.zk, self.connect(), Events()
        cache = TreeCache(zk, self.root)
        cache.listen(lambda event: events(event.event_data.path if event.event_data else None))
        cache.start()
        self.addCleanup(cache.close)
        events.until(lambda path: path == self.root)
        other.create(self.path("a/b"), b"x", makepath=True)
        events.until(lambda path: path == self.path("a/b"))
        self.assertEqual(cache.get_data(self.path("a/b")).data, b"x")


class Recipes(Base):
    def test_lock_excludes_and_passes_to_waiter(self):
        zk, other, events = self.zk, self.connect(), Events()
        first, second = zk.Lock(self.root, "first"), other.Lock(self.root, "second")
        self.assertTrue(first.acquire(timeout=BOUND))
        self.assertFalse(second.acquire(blocking=False))
        join = self.thread(lambda: events(second.acquire(timeout=BOUND)))
        self.wait_for(lambda: first.contenders() == ["first", "second"])
        first.release()
        self.assertTrue(events.next())
        join()
        self.assertEqual(first.contenders(), ["second"])
        second.release()

    def test_election_runs_one_leader_at_a_time(self):
        zk, other, events = self.zk, self.connect(), Events()
        stop = threading.Event()
        first, second = zk.Election(self.root, "first"), other.Election(self.root, "second")

        def lead(name):
            events(name)
            self.assertTrue(stop.wait(BOUND))

        join_first = self.thread(first.run, lead, "first")
        self.assertEqual(events.next(), "first")
        join_second = self.thread(second.run, lead, "second")
        self.wait_for(lambda: first.contenders() == ["first", "second"])
        stop.set()
        self.assertEqual(events.next(), "second")
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

    def test_semaphore_admits_max_leases(self):
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

    def test_queues_return_items_in_order(self):
        queue, locking = self.zk.Queue(self.path("q")), self.connect().LockingQueue(self.path("lq"))
        for item in (b"a", b"b"):
            queue.put(item)
            locking.put(item)
        self.assertEqual([queue.get(), queue.get(), queue.get()], [b"a", b"b", None])
        self.assertEqual(locking.get(timeout=BOUND), b"a")
        self.assertTrue(locking.consume())
        self.assertEqual(locking.get(timeout=BOUND), b"b")
        self.assertTrue(locking.consume())

    def test_party_barrier_and_double_barrier(self):
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
        """Waits for a condition that another client causes, checked at each change below the test's path."""
        changed = threading.Event()

        @self.zk.ChildrenWatch(self.root)
        def follow(children):
            changed.set()

        while not condition():
            self.assertTrue(changed.wait(BOUND), "condition not met in time")
            changed.clear()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Kazoo's nodes, transactions, permissions and sessions, as its users write them.

    kazoo_nodes.py HOST:PORT,... ROOT
"""

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
from kazoo.security import ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, Id, Permissions, make_acl, make_digest_acl

from kazoo_case import BOUND, Base, Events, main


class Nodes(Base):
    def test_every_mode_of_create_creates_its_node(self):
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

    def test_refusals_raise_kazoo_errors(self):
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

    def test_chroot_hides_nodes_above_it(self):
        zk = KazooClient(hosts=self.servers + self.root, timeout=4)
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
    def test_transaction_is_carried_out_as_a_whole(self):
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

    def test_failed_transaction_leaves_nothing(self):
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


class Permission(Base):
    def test_digest_acl_excludes_other_clients(self):
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

    def test_auth_scheme_stands_for_presented_credentials(self):
        zk, path = self.zk, self.path("mine")
        zk.add_auth("digest", "bob:pw")
        zk.create(path, acl=[ACL(Permissions.ALL, Id("auth", ""))])
        self.assertEqual(zk.get_acls(path)[0], [make_digest_acl("bob", "pw", all=True)])


class Sessions(Base):
    def test_stopped_client_deletes_its_ephemeral_nodes(self):
        events, states, leaver = Events(), Events(), KazooClient(hosts=self.servers, timeout=4)
        leaver.add_listener(states)
        leaver.start(timeout=BOUND)
        self.assertEqual(states.next(), KazooState.CONNECTED)
        leaver.create(self.path("e"), ephemeral=True)
        self.zk.exists(self.path("e"), watch=events)
        leaver.stop()
        leaver.close()
        self.assertEqual(states.next(), KazooState.LOST)
        self.assertEqual(events.next().type, EventType.DELETED)

    def test_restarted_client_has_new_session(self):
        zk = self.connect()
        before = zk.client_id[0]
        zk.restart()
        self.assertNotEqual(zk.client_id[0], before)
        self.assertIsNone(zk.exists(self.path("nowhere")))


if __name__ == "__main__":
    main()

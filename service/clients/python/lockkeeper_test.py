# SPDX-License-Identifier: Apache-2.0
"""Tests of lockkeeper.py against the service at LOCKKEEPER_URL, whose callers may do everything. clients_test.go starts it."""

import contextlib
import http.client
import http.server
import json
import os
import socket
import ssl
import threading
import time
import unittest
import unittest.mock
import urllib.parse
import uuid

import lockkeeper

URL = os.environ.get("LOCKKEEPER_URL", "")
SHORT = 4  # seconds: a hold that is lost soon
STEADY = 10  # one that survives on a busy machine too


class Proxy(http.server.ThreadingHTTPServer):
    """Forwards requests to the service, and breaks those for which fault(operation) is "lose", "garble", "cut", "refuse", "reject",
    "trickle" or "hang", until the proxy is closed."""

    daemon_threads = True

    def __init__(self, fault):
        super().__init__(("127.0.0.1", 0), Forward)
        self.fault, self.requests, self.authorizations, self.token = fault, [], [], b""
        self.url = "http://127.0.0.1:%d" % self.server_address[1]
        self.closed = threading.Event()
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self.thread.start()

    def count(self, operation):
        return sum(1 for op, _ in self.requests if op == operation)

    def close(self):
        self.closed.set()
        self.shutdown()
        self.thread.join()
        self.server_close()


class Forward(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        operation = self.path.rsplit("/", 1)[1]
        self.server.requests.append((operation, json.loads(body)))
        self.server.authorizations.append(self.headers["Authorization"])
        fault = self.server.fault(operation)
        if fault == "refuse":
            self.send_error(503)
            return
        if fault == "reject":
            self.reply(401, b'{"code": "UNAUTHENTICATED", "title": "no such token"}')
            return
        if fault == "hang":
            self.server.closed.wait()
            return
        if fault == "trickle":
            self.send_response(200)
            self.flush_headers()
            with contextlib.suppress(OSError):  # of a client that has gone
                while True:
                    self.wfile.write(b"x")
                    time.sleep(0.3)
            return
        if fault == "rotate":  # the service knows the last lock token only by another name
            body = body.replace(b"renamed", self.server.token)
        status, answer = post(self.path, body)
        if fault == "rotate" and operation == "renew":
            self.server.token = json.loads(answer)["lockToken"].encode()
            answer = answer.replace(self.server.token, b"renamed")
        if fault == "garble":
            status, answer = 200, b"<html>"
        if fault == "cut":
            self.reply(410, answer, 1)
        elif fault != "lose":
            self.reply(status, answer)

    def reply(self, status, answer, missing=0):
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer) + missing))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


def post(path, body):
    target = urllib.parse.urlsplit(URL)
    connection = http.client.HTTPConnection(target.hostname, target.port)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def nothing(_):
    return ""


def in_turn(*faults):
    """Returns a fault function: the n-th request has the n-th fault, and all later ones have the last."""
    left = list(faults)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


class Locks(unittest.TestCase):
    def setUp(self):
        self.key = uuid.uuid4().hex + "/a b"
        self.other = lockkeeper.Client(URL, owner="other")

    def proxy(self, fault):
        proxy = Proxy(fault)
        self.addCleanup(proxy.close)
        return proxy

    def force_release(self, hold, mode):
        body = json.dumps({"fencingToken": str(hold.token), "reason": "stuck", "mode": mode})
        status, answer = post("/v1/locks/team/" + lockkeeper._escape(self.key) + "/force-release", body)
        self.assertEqual(200, status, answer)

    def test_lock_excludes_other_clients_until_it_is_released(self):
        with lockkeeper.Client(URL, owner="me").lock("team", self.key) as hold:
            self.assertTrue(hold.valid())
            with self.assertRaises(lockkeeper.Locked) as refused:
                self.other.lock("team", self.key, wait=0)
            self.assertEqual("me", refused.exception.owner)
            with self.assertRaises(lockkeeper.Locked):
                self.other.lock("team", self.key, wait=0.1)
        self.assertFalse(hold.valid())
        hold.release()
        with self.other.lock("team", self.key, wait=0) as after:
            self.assertGreater(after.token, hold.token)

    def test_waiter_is_granted_lock_when_it_is_released(self):
        hold = self.other.lock("team", self.key)
        released = threading.Timer(0.2, hold.release)
        released.start()
        with lockkeeper.Client(URL).lock("team", self.key, wait=30) as mine:
            self.assertGreater(mine.token, hold.token)
        released.join()

    def test_hold_presents_lock_token_of_its_last_renewal(self):
        proxy = self.proxy(lambda operation: "rotate")
        with lockkeeper.Client(proxy.url, ttl=STEADY).lock("team", self.key) as hold:
            while proxy.count("renew") < 3:
                hold.check()
                time.sleep(0.01)
        last = [body["lockToken"] for operation, body in proxy.requests if operation in ("renew", "release")][1:]
        self.assertEqual(["renamed"] * len(last), last)

    def test_requests_whose_answers_are_lost_are_repeated(self):
        for fault in ("lose", "garble", "cut", "refuse"):
            left = {"acquire": 2, "release": 2}

            def choose(operation):
                left[operation] = left.get(operation, 0) - 1
                return fault if left[operation] >= 0 else ""

            proxy = self.proxy(choose)
            with lockkeeper.Client(proxy.url).lock("team", self.key, wait=10):
                pass
            self.assertEqual(3, proxy.count("acquire"))
            self.assertEqual(3, proxy.count("release"))
            self.assertEqual(1, len({body["requestId"] for op, body in proxy.requests if op == "acquire"}))
            self.other.lock("team", self.key, wait=0).release()

    def test_hold_is_renewed_while_it_is_held(self):
        proxy = self.proxy(nothing)
        with lockkeeper.Client(proxy.url, ttl=STEADY).lock("team", self.key) as hold:
            self.assertFalse(hold.wait(STEADY + STEADY / 3))
            self.assertTrue(hold.valid())
            with self.assertRaises(lockkeeper.Locked):
                self.other.lock("team", self.key, wait=0)
        self.assertGreaterEqual(proxy.count("renew"), 3)

    def test_answer_that_never_ends_is_left_for_next_replica(self):
        proxy = self.proxy(lambda operation: "trickle" if operation == "renew" else "")
        hold = lockkeeper.Client(proxy.url + "," + URL, ttl=2 * STEADY).lock("team", self.key)
        while proxy.count("renew") == 0:
            time.sleep(0.1)
        left = hold.remaining()
        while 0 < hold.remaining() <= left:  # the other replica has not renewed it yet
            time.sleep(0.1)
        self.assertTrue(hold.valid())
        hold.release()
        proxy.fault = lambda operation: "trickle" if operation == "release" else ""
        hold = lockkeeper.Client(proxy.url + "," + URL).lock("team", self.key, wait=0)
        began = time.monotonic()
        hold.release()
        self.assertLess(time.monotonic() - began, 10)
        self.assertEqual(1, proxy.count("release"))
        self.other.lock("team", self.key, wait=0).release()

    def test_request_that_was_given_up_before_its_connection_was_made_is_not_sent(self):
        proxy = self.proxy(nothing)
        connect, connected = socket.create_connection, threading.Event()

        def slow(*args):
            time.sleep(1)
            connected.set()
            return connect(*args)

        with unittest.mock.patch("socket.create_connection", slow):
            client = lockkeeper.Client(proxy.url)
            with self.assertRaisesRegex(lockkeeper._Unsent, "no answer within 0.1 s"):
                client._send("/v1/locks/team/key/acquire", {}, 0.1)
            connected.wait()
        time.sleep(0.5)
        self.assertEqual([], proxy.requests)

    def test_request_that_is_given_up_is_not_sent_as_plain_text(self):
        ours, theirs = socket.socketpair()
        self.addCleanup(theirs.close)
        given_up, sent, shutdown = threading.Event(), [], socket.socket.shutdown

        class Connection(http.client.HTTPSConnection):
            def connect(self):
                self.sock = tls

            def request(self, *args):
                given_up.wait()
                super().request(*args)

        def slow(sock, how):  # the request is sent while the connection is shut down
            given_up.set()
            sent.append(theirs.recv(4096))
            shutdown(sock, how)

        context = ssl.create_default_context()
        tls = context.wrap_socket(ours, server_hostname="localhost", do_handshake_on_connect=False)
        exchange = lockkeeper._Exchange(Connection("localhost", context=context))
        with unittest.mock.patch("socket.socket.shutdown", slow), self.assertRaises(TimeoutError):
            exchange.answer(1, "POST", "/v1/locks/team/key/acquire", "{}", {"Authorization": "Bearer secret"})
        exchange._done.wait()
        self.assertEqual(b"\x16", sent[0][:1], "a TLS handshake")
        self.assertNotIn(b"secret", b"".join(sent))

    def test_hold_is_released_although_bearer_function_of_renewal_does_not_return(self):
        renewing, returned = threading.Event(), threading.Event()
        self.addCleanup(returned.set)

        def bearer():
            if "renews" in threading.current_thread().name:
                renewing.set()
                returned.wait()
            return "token"

        hold = lockkeeper.Client(URL, ttl=STEADY, bearer=bearer).lock("team", self.key)
        renewing.wait()
        with unittest.mock.patch("lockkeeper._RELEASE_TIMEOUT", 2):
            hold.release()
        self.other.lock("team", self.key, wait=0).release()

    def test_hold_is_released_although_no_thread_can_be_started(self):
        client = lockkeeper.Client(URL)
        hold = client.lock("team", self.key)
        with unittest.mock.patch("threading.Thread.start", side_effect=RuntimeError("can't start new thread")):
            hold.release()
            with self.assertRaises(RuntimeError):
                client.lock("team", self.key, wait=0)
        self.other.lock("team", self.key, wait=0).release()

    def test_unreachable_hold_ends_before_another_client_is_granted(self):
        proxy = self.proxy(nothing)
        hold = lockkeeper.Client(proxy.url, ttl=SHORT).lock("team", self.key)
        ended = []
        watcher = threading.Thread(target=lambda: (hold.wait(), ended.append(time.monotonic())))
        watcher.start()
        proxy.fault = lambda _: "refuse"
        next_hold = self.other.lock("team", self.key)
        granted = time.monotonic()
        watcher.join()
        self.assertLess(ended[0], granted)
        with self.assertRaisesRegex(lockkeeper.Lost, "no renewal in time: status 503"):
            hold.check()
        proxy.fault = nothing
        with self.assertRaises(lockkeeper.Lost):
            hold.release()
        self.assertTrue(next_hold.valid())
        next_hold.release()

    def test_holder_of_revoked_hold_learns_why(self):
        hold = lockkeeper.Client(URL, ttl=STEADY).lock("team", self.key)
        self.force_release(hold, "safe")
        self.assertTrue(hold.wait(60))
        with self.assertRaisesRegex(lockkeeper.Lost, "LOCK_REVOKED.*stuck"):
            hold.check()
        with self.assertRaises(lockkeeper.Lost):
            hold.release()

    def test_loss_is_reported_although_first_replica_refuses_connection_of_release(self):
        proxy = self.proxy(nothing)
        hold = lockkeeper.Client(proxy.url + "," + URL).lock("team", self.key)
        self.force_release(hold, "now")
        with self.other.lock("team", self.key, wait=0):
            proxy.close()
            with self.assertRaisesRegex(lockkeeper.Lost, "LOCK_EXPIRED"):
                hold.release()

    def test_release_that_is_rejected_is_no_loss(self):
        proxy = self.proxy(nothing)
        hold = lockkeeper.Client(proxy.url).lock("team", self.key)
        proxy.fault = lambda _: "reject"
        with unittest.mock.patch("lockkeeper._RELEASE_TIMEOUT", 1), self.assertRaises(lockkeeper.Unavailable):
            hold.release()
        with self.assertRaises(lockkeeper.Locked):
            self.other.lock("team", self.key, wait=0)

    def test_release_that_is_rejected_is_repeated_at_next_replica(self):
        proxy = self.proxy(nothing)
        hold = lockkeeper.Client(proxy.url + "," + URL).lock("team", self.key)
        proxy.fault = lambda _: "reject"
        hold.release()
        self.other.lock("team", self.key, wait=0).release()

    def test_loss_is_reported_although_first_replica_rejects_release(self):
        proxy = self.proxy(nothing)
        hold = lockkeeper.Client(proxy.url + "," + URL).lock("team", self.key)
        self.force_release(hold, "now")
        proxy.fault = lambda _: "reject"
        with self.other.lock("team", self.key, wait=0), self.assertRaisesRegex(lockkeeper.Lost, "LOCK_EXPIRED"):
            hold.release()

    def test_wall_clock_that_is_set_ends_hold_early_never_late(self):
        hold, now = lockkeeper.Client(URL, ttl=STEADY).lock("team", self.key), time.time
        with unittest.mock.patch("lockkeeper.time.time", lambda: now() - 60):
            self.assertLess(hold.remaining(), STEADY)
            self.assertTrue(hold.valid())
        with unittest.mock.patch("lockkeeper.time.time", lambda: now() + 60):
            self.assertFalse(hold.valid())
        with self.assertRaises(lockkeeper.Lost):
            hold.release()

    def test_error_of_block_is_raised_although_lock_is_lost(self):
        proxy = self.proxy(nothing)
        with self.assertRaises(ZeroDivisionError):
            with lockkeeper.Client(proxy.url, ttl=SHORT).lock("team", self.key) as hold:
                proxy.fault = lambda _: "refuse"
                hold.wait()
                1 / 0

    def test_acquisition_that_fails_leaves_nothing(self):
        class Interrupt(BaseException):
            pass

        calls = []

        def bearer():
            calls.append(1)
            if len(calls) == 2:
                raise Interrupt
            return "token"

        lost = []

        def choose(operation):
            lost.append(operation)
            return "lose" if len(lost) == 1 else ""

        with self.assertRaises(Interrupt):
            lockkeeper.Client(self.proxy(choose).url, bearer=bearer).lock("team", self.key)
        self.assertEqual(["acquire", "acquire", "release"], lost)
        self.other.lock("team", self.key, wait=0).release()

    def test_acquisition_that_is_rejected_after_its_grant_was_lost_leaves_nothing(self):
        for faults in (("lose", ""), ("reject",)), (("lose", "reject", "reject", ""),):
            urls = ",".join(self.proxy(in_turn(*turns)).url for turns in faults)
            with self.assertRaises(lockkeeper.Problem) as rejected:
                lockkeeper.Client(urls).lock("team", self.key)
            self.assertEqual(401, rejected.exception.status)
            self.other.lock("team", self.key, wait=0).release()

    def test_error_says_that_lease_may_be_left(self):
        client = lockkeeper.Client(self.proxy(in_turn("lose", "reject")).url)
        with unittest.mock.patch("lockkeeper._RELEASE_TIMEOUT", 1):
            with self.assertRaisesRegex(lockkeeper.Unavailable, "a lease may be left until its TTL has passed"):
                client.lock("team", self.key)
        with self.assertRaises(lockkeeper.Locked):
            self.other.lock("team", self.key, wait=0)

    def test_next_replica_is_tried(self):
        with lockkeeper.Client("http://127.0.0.1:1," + URL).lock("team", self.key, wait=0) as hold:
            self.assertTrue(hold.valid())

    def test_next_replica_is_tried_in_time_if_one_never_answers(self):
        for wait in (0, 10):
            proxy = self.proxy(lambda _: "hang")
            lockkeeper.Client(proxy.url + "," + URL).lock("team", self.key, wait=wait).release()
            self.assertEqual(["acquire"], [operation for operation, _ in proxy.requests])

    def test_wait_on_healthy_replica_is_one_poll_to_its_end(self):
        proxy = self.proxy(nothing)
        with self.other.lock("team", self.key, wait=0), self.assertRaises(lockkeeper.Locked):
            lockkeeper.Client(proxy.url + "," + URL).lock("team", self.key, wait=4)
        waits = [body["waitMillis"] for _, body in proxy.requests]
        self.assertEqual([0], waits[:1])
        self.assertEqual(2, len(waits))
        self.assertGreater(waits[1], 0)

    def test_request_after_one_that_waited_waits_too(self):
        def choose(_):
            lockkeeper._MAX_POLL = 100  # from now on the rest of the wait is too short for a poll at each replica
            return "refuse"

        first, second = self.proxy(choose), self.proxy(nothing)
        with unittest.mock.patch("lockkeeper._MAX_POLL", 20):
            lockkeeper.Client(first.url + "," + second.url).lock("team", self.key, wait=100).release()
        for proxy in (first, second):
            self.assertGreater(proxy.requests[0][1]["waitMillis"], 0)

    def test_connection_has_less_time_than_its_answer(self):
        timeouts, connect, run = [], socket.create_connection, http.client.HTTPConnection.request

        def note(address, timeout, *args):
            timeouts.append(timeout)
            return connect(address, timeout, *args)

        def request(connection, *args):
            timeouts.append(connection.sock.gettimeout())
            run(connection, *args)

        with unittest.mock.patch("socket.create_connection", note):
            with unittest.mock.patch("http.client.HTTPConnection.request", request):
                client = lockkeeper.Client(URL)
                client._send("/v1/locks/team/" + lockkeeper._escape(self.key) + "/acquire", {"ownerId": "a", "requestId": "r"}, 25)
        self.assertEqual([2.5, 25], timeouts)

    def test_withdrawal_reaches_next_replica_if_one_never_answers(self):
        class Interrupt(BaseException):
            pass

        send, interrupted = lockkeeper._Exchange.answer, []

        def interrupt(exchange, *args):
            if interrupted:
                return send(exchange, *args)
            interrupted.append(1)
            raise Interrupt

        proxy = self.proxy(lambda _: "hang")
        answers = self.proxy(nothing)
        with unittest.mock.patch("lockkeeper._Exchange.answer", interrupt), self.assertRaises(Interrupt):
            lockkeeper.Client(proxy.url + "," + answers.url).lock("team", self.key)
        self.assertEqual(1, proxy.count("acquire"), "the interrupted request did not leave the replica")
        self.assertEqual(["acquire", "release"], [operation for operation, _ in answers.requests])
        self.other.lock("team", self.key, wait=0).release()

    def test_wait_notices_that_machine_was_suspended(self):
        hold, now, waits = lockkeeper.Client(URL, ttl=60).lock("team", self.key), time.time, []
        wait, jump = hold._ended.wait, [0]

        def suspend(timeout):
            if threading.current_thread() is threading.main_thread():
                waits.append(timeout)
                jump[0] = 3600
            return wait(timeout)

        with unittest.mock.patch("lockkeeper.time.time", lambda: now() + jump[0]):
            with unittest.mock.patch.object(hold._ended, "wait", suspend):
                self.assertTrue(hold.wait(30))
        self.assertLessEqual(max(waits), 1)
        with self.assertRaises(lockkeeper.Lost):
            hold.release()

    def test_service_that_is_not_reached_is_unavailable(self):
        began = time.monotonic()
        with self.assertRaises(lockkeeper.Unavailable):
            lockkeeper._RELEASE_TIMEOUT, before = 0.3, lockkeeper._RELEASE_TIMEOUT
            self.addCleanup(setattr, lockkeeper, "_RELEASE_TIMEOUT", before)
            lockkeeper.Client("http://127.0.0.1:1").lock("team", self.key, wait=0)
        self.assertLess(time.monotonic() - began, 60)

    def test_refusal_has_its_code(self):
        with self.assertRaises(lockkeeper.Problem) as refused:
            self.other.lock("b@d", self.key)
        self.assertEqual("INVALID_REQUEST", refused.exception.code)
        for urls, ttl in (("locks", 30), ("ftp://locks", 30), ("http://127.0.0.1:80x", 30), ("http://locks/a b", 30), (URL, 0.5)):
            with self.assertRaisesRegex(ValueError, "new client: "):
                lockkeeper.Client(urls, ttl=ttl)

    def test_token_with_line_break_at_its_end_is_presented_without_it(self):
        proxy = self.proxy(nothing)
        lockkeeper.Client(proxy.url, bearer="token\n").lock("team", self.key, wait=0).release()
        self.assertEqual(["Bearer token"] * 2, proxy.authorizations)

    def test_token_that_no_header_can_have_is_an_error(self):
        with self.assertRaises(ValueError) as raised:
            lockkeeper.Client(URL, bearer="se\ncret").lock("team", self.key)
        self.assertNotIn("cret", str(raised.exception))

    def test_leader_leads_until_it_resigns(self):
        with self.other.campaign("team", self.key, "10.0.0.1:80") as term:
            with self.assertRaises(lockkeeper.Locked):
                lockkeeper.Client(URL).lock("team", self.key, wait=0)
        with self.other.campaign("team", self.key, wait=0) as later:
            self.assertGreater(later.token, term.token)


if __name__ == "__main__":
    unittest.main()

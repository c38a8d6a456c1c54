# SPDX-License-Identifier: Apache-2.0
"""Tests of lockkeeper.py against the service at LOCKKEEPER_URL, whose callers may do everything. clients_test.go starts it."""

import http.client
import http.server
import json
import os
import threading
import time
import unittest
import urllib.parse
import uuid

import lockkeeper

URL = os.environ.get("LOCKKEEPER_URL", "")
SHORT = 4  # seconds: a hold that is lost soon
STEADY = 10  # one that survives on a busy machine too


class Proxy(http.server.ThreadingHTTPServer):
    """Forwards requests to the service, and breaks those for which fault(operation) is "lose" or "refuse"."""

    daemon_threads = True

    def __init__(self, fault):
        super().__init__(("127.0.0.1", 0), Forward)
        self.fault, self.requests, self.token = fault, [], b""
        self.url = "http://127.0.0.1:%d" % self.server_address[1]
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self.thread.start()

    def count(self, operation):
        return sum(1 for op, _ in self.requests if op == operation)

    def close(self):
        self.shutdown()
        self.thread.join()
        self.server_close()


class Forward(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        operation = self.path.rsplit("/", 1)[1]
        self.server.requests.append((operation, json.loads(body)))
        fault = self.server.fault(operation)
        if fault == "refuse":
            self.send_error(503)
            return
        if fault == "rotate":  # the service knows the last lock token only by another name
            body = body.replace(b"renamed", self.server.token)
        status, answer = post(self.path, body)
        if fault == "rotate" and operation == "renew":
            self.server.token = json.loads(answer)["lockToken"].encode()
            answer = answer.replace(self.server.token, b"renamed")
        if fault == "lose":
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
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


class Locks(unittest.TestCase):
    def setUp(self):
        self.key = uuid.uuid4().hex + "/a b"
        self.other = lockkeeper.Client(URL, owner="other")

    def proxy(self, fault):
        proxy = Proxy(fault)
        self.addCleanup(proxy.close)
        return proxy

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
        for fault in ("lose", "refuse"):
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
        body = json.dumps({"fencingToken": str(hold.token), "reason": "stuck"})
        status, answer = post("/v1/locks/team/" + lockkeeper._escape(self.key) + "/force-release", body)
        self.assertEqual(200, status, answer)
        self.assertTrue(hold.wait(60))
        with self.assertRaisesRegex(lockkeeper.Lost, "LOCK_REVOKED.*stuck"):
            hold.check()
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

    def test_next_replica_is_tried(self):
        with lockkeeper.Client("http://127.0.0.1:1," + URL).lock("team", self.key, wait=0) as hold:
            self.assertTrue(hold.valid())

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
        for urls, ttl in (("locks", 30), ("ftp://locks", 30), (URL, 0.5)):
            with self.assertRaises(ValueError):
                lockkeeper.Client(urls, ttl=ttl)

    def test_leader_leads_until_it_resigns(self):
        with self.other.campaign("team", self.key, "10.0.0.1:80") as term:
            with self.assertRaises(lockkeeper.Locked):
                lockkeeper.Client(URL).lock("team", self.key, wait=0)
        with self.other.campaign("team", self.key, wait=0) as later:
            self.assertGreater(later.token, term.token)


if __name__ == "__main__":
    unittest.main()

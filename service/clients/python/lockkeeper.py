# SPDX-License-Identifier: Apache-2.0
"""Takes locks and leads elections through the Lockkeeper lock service.

Copy this file: it needs Python 3.8 or later and its standard library only.

    client = lockkeeper.Client("https://locks.example.com", bearer=token)
    with client.lock("billing", "orders") as hold:
        for row in rows:
            hold.check()                      # raises Lost once the lock is lost
            write(row, fence=hold.token)      # the resource rejects a stale token

A hold is valid until its lease ends, by the monotonic clock or the wall clock of this process: the one by which more time has
passed. So a wall clock that is set forward can end it early, never late. A thread renews the lease. A process that is paused can
act after the end: pass hold.token to the resource, and let the resource check it.
"""

import contextlib
import http.client
import json
import os
import random
import socket
import ssl
import threading
import time
import urllib.parse
import uuid

_MAX_POLL = 20.0  # one request waits this long at the service
_MAX_WAIT = 24 * 3600.0
_ANSWER_TIMEOUT = 5.0  # bounds an answer, after the wait
_CONNECT_TIMEOUT = 2.5  # bounds a connection: a host that is down may answer nothing
_RELEASE_TIMEOUT = 5.0  # bounds a release, and the withdrawal of an acquisition that failed
_MAX_ANSWER = 1 << 20  # far more than any answer needs


class Error(Exception):
    """The failure of an operation on a lock."""


class Problem(Error):
    """A refusal of the service. code is stable; it is empty if a proxy answered."""

    def __init__(self, status, document):
        self.status = status
        self.document = document
        self.code = document.get("code", "")
        self.current_owner = document.get("currentOwner", "")
        text = f"{self.code}: {document.get('title', '')}" if self.code else f"status {status}"
        for detail in (self.current_owner and f"held by {self.current_owner!r}", document.get("reason"), document.get("detail")):
            text += f": {detail}" if detail else ""
        super().__init__(text)

    def _definite(self):
        """Reports whether a repeated request would be refused again."""
        return self.status < 500 and self.status not in (408, 425, 429) and self.code != "REQUEST_SUPERSEDED"

    def _settled(self):
        """Reports whether it is an answer to an acquisition after which it has no lease and no waiter."""
        return self.code == "LOCK_ALREADY_HELD" or self.code != "" and self.status == 410

    def _ends_lease(self):
        return self.status == 410 or self.code == "NOT_LOCK_OWNER"


class Locked(Error):
    """Another client holds the lock, or the wait is over. owner is the holder, if it is known."""

    def __init__(self, message, owner=""):
        super().__init__(message)
        self.owner = owner


class Lost(Error):
    """The lock was lost before it was released."""


class Unavailable(Error):
    """No replica gave a definite answer in time, or none confirmed that nothing is left of an acquisition that failed. A lease
    that was left behind ends after its TTL."""


class Client:
    """Takes locks from the replicas of one service. It is safe for use by several threads.

    urls are separated by commas. owner is the name that other clients see. ttl is how long a lease lasts without a renewal,
    in seconds. bearer is a token, or a function that returns one and is called for each request. context is an
    ssl.SSLContext.
    """

    def __init__(self, urls, owner=None, ttl=30.0, bearer=None, context=None):
        self._bases = [_base(url.strip().rstrip("/")) for url in urls.split(",")]
        if not 1 <= ttl <= 3600:
            raise ValueError(f"new client: ttl {ttl} is not between 1 and 3600 seconds")
        self.owner = owner or f"{socket.gethostname()}:{os.getpid()}"
        self.ttl = ttl
        self._bearer = bearer if callable(bearer) or bearer is None else lambda: bearer
        self._context = context or ssl.create_default_context()
        self._current = 0  # threads may race on it: any replica will do

    def lock(self, namespace, key, wait=None):
        """Waits until the lock is free, for wait seconds at most, and returns a Hold. wait 0 does not wait; None has no bound.

        Raises Locked; Unavailable if the wait is over, and 5 s have passed, without an answer; or Problem for another refusal.
        Before that it withdraws a request that may have been granted, for 7 s at most, and raises Unavailable if it cannot.
        """
        return self._acquire("locks", namespace, key, wait, "acquire", "release", {})

    def campaign(self, namespace, key, value="", wait=None):
        """Waits until this client leads the election, publishes value, and returns a Hold. Its release resigns."""
        return self._acquire("elections", namespace, key, wait, "campaign", "resign", {"value": value})

    def _acquire(self, kind, namespace, key, wait, operation, release, extra):
        place = f"/v1/{kind}/{_escape(namespace)}/{_escape(key)}/"
        name = f"{namespace}/{key}"
        body = {"ownerId": self.owner, "requestId": uuid.uuid4().hex, "ttlMillis": round(self.ttl * 1000), **extra}
        until = None if wait is None else time.monotonic() + wait
        give_up = None if wait is None else max(until, time.monotonic() + _RELEASE_TIMEOUT)
        backoff = _Backoff(len(self._bases), 1.0)
        pending = False  # a request was sent that may have left a lease or a waiter
        joins = False  # requests wait: a replica has answered that the lock is held, or a request that waits was sent
        try:
            while True:
                left = _MAX_WAIT if until is None else max(0.0, min(_MAX_WAIT, until - time.monotonic()))
                # A replica at which a request waits looks like one that is dead, until the end of a poll. If there is no time for
                # a poll at each, the first requests look for one that answers. After one that waits, they would lose the position.
                replicas = len(self._bases)
                tries = 0 < left < replicas * (_MAX_POLL + _ANSWER_TIMEOUT) and until is not None and replicas > 1 and not joins
                left = 0 if tries else left
                # A replica that does not answer in time is left before the waiter's position is lost.
                timeout = min(left, _MAX_POLL) + _ANSWER_TIMEOUT
                if left == 0 and replicas > 1:
                    timeout = max(1.0, self._share(give_up - time.monotonic(), timeout))
                sent, before, pending, waited = _Instant(), pending, True, joins
                joins = joins or left > 0
                try:
                    status, answer = self._send(place + operation, {**body, "waitMillis": int(left * 1000)}, timeout)
                except Problem as problem:
                    if problem._definite():
                        # Other refusals come before the lock was looked at: an earlier request may have been granted.
                        pending = before and not problem._settled()
                        if problem.code == "LOCK_ALREADY_HELD" and tries:
                            joins, backoff.failures = True, 0
                            continue
                        if problem.code == "LOCK_ALREADY_HELD":
                            raise Locked(f"lock {name}: {problem}", problem.current_owner) from problem
                        raise
                    failure, pause = problem, backoff.after(problem)
                except _FAILURES as error:
                    if isinstance(error, _Unsent):
                        pending, joins = before, waited
                    failure, pause = error, backoff.after(error)
                else:
                    if status == 200:
                        hold = Hold(self, name, place, release, answer, sent)
                        if hold.remaining() > 0:
                            return hold._start()
                        failure, pause = "the grant arrived after its end", backoff.after(None)
                    else:
                        failure, pause = None, answer.get("retryAfterMillis", 0) / 1000
                        backoff.failures = 0
                if failure is not None and give_up is not None and time.monotonic() + pause > give_up:
                    raise Unavailable(f"lock {name}: {failure}")
                time.sleep(pause)
        except BaseException as error:  # KeyboardInterrupt, too
            failure = pending and self._withdraw(place, operation, release, body)
            if failure and isinstance(error, Error):
                raise Unavailable(f"withdraw {name}: {failure}: a lease may be left until its TTL has passed") from error
            raise

    def _withdraw(self, place, operation, release, body):
        """Removes what an acquisition may have left: a repeat that does not wait is refused, or granted and then released.

        Returns None, or the last failure if no replica has confirmed it."""
        end, backoff = time.monotonic() + _RELEASE_TIMEOUT, _Backoff(len(self._bases), 1.0)
        while True:
            try:
                status, answer = self._send(place + operation, {**body, "waitMillis": 0}, self._share(end - time.monotonic(), _RELEASE_TIMEOUT / 2))
                if status == 200:
                    self._send(place + release, {"ownerId": self.owner, "lockToken": answer["lockToken"]}, 2)
                    return None
                failure = "the request still waits"
            except Problem as problem:
                if problem._settled():
                    return None
                failure = problem
            except _FAILURES as error:
                failure = error
            pause = backoff.after(failure)
            if time.monotonic() + pause > end:
                return failure
            time.sleep(pause)

    def _share(self, left, longest):
        """Returns how long one of several attempts may take: a replica that does not answer leaves time for the others."""
        return min(left, longest, max(1.0, left / len(self._bases)))

    def _send(self, path, body, timeout):
        """Sends one request to the current replica, and waits for timeout seconds at most. The next call uses the next replica
        unless the answer is about the lock: another replica may accept a caller that this one refuses. After KeyboardInterrupt it
        does not: the replica has done nothing wrong."""
        n = self._current
        base = self._bases[n % len(self._bases)]
        headers = {"Content-Type": "application/json"}
        if self._bearer is not None:
            token = self._bearer().strip()
            if not (token.isascii() and token.isprintable()):  # the error of http.client would have it
                raise ValueError("the bearer token has a character that no header can have")
            headers["Authorization"] = "Bearer " + token
        timeout = max(timeout, 0.05)
        connect = min(timeout, _CONNECT_TIMEOUT)
        if base.scheme == "https":
            connection = http.client.HTTPSConnection(base.hostname, base.port, timeout=connect, context=self._context)
        else:
            connection = http.client.HTTPConnection(base.hostname, base.port, timeout=connect)
        try:
            status, content = _Exchange(connection).answer(timeout, "POST", base.path + path, json.dumps(body), headers)
            if 200 <= status < 300:
                try:
                    answer = json.loads(content)
                except ValueError as error:
                    raise http.client.HTTPException(f"answer of {base.hostname}: {error}") from error
                return status, answer
            try:
                document = json.loads(content)
            except ValueError:
                document = {}  # of a proxy: the status is all that is known
            raise Problem(status, document if isinstance(document, dict) else {})
        except Exception as error:
            if not (isinstance(error, Problem) and (error._settled() or error._ends_lease())):
                self._current = n + 1
            raise


# What a request can fail with that is no refusal: its outcome is unknown. ssl.SSLError is an OSError. A ValueError is not among
# them: a header that cannot be sent would fail each repeat.
_FAILURES = (OSError, http.client.HTTPException)


class _Unsent(OSError):
    """The failure of a request that no replica received."""


class _Exchange:
    """One request on a new connection, and its answer. A thread carries it out, so that one timeout bounds all of it: that of a
    connection bounds each of its operations, and not the lookup of the name."""

    def __init__(self, connection):
        self._connection = connection
        self._mutex = threading.Lock()  # guards the two fields that follow
        self._abandoned = False
        self._socket = None  # None if the request was not sent
        self._done = threading.Event()  # is set after one of the two fields that follow
        self._answer = self._failure = None

    def answer(self, timeout, *request):
        """Returns the status and the content of the answer."""
        done = False
        try:
            try:
                threading.Thread(target=self._run, args=(timeout, *request), name="lockkeeper request", daemon=True).start()
            except RuntimeError:  # no thread can be started, for instance because the program exits
                self._run(timeout, *request)
            done = self._done.wait(timeout)
        finally:  # also after KeyboardInterrupt
            with self._mutex:
                self._abandoned = True
            if self._socket is not None and not done:
                with contextlib.suppress(OSError):  # of a socket that is closed by then
                    # An ssl.SSLSocket's own shutdown ends the encryption first: what the thread sends at that moment would leave as
                    # plain text, with the bearer token.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        failure = self._failure if done else TimeoutError(f"no answer within {timeout:.3g} s")
        if self._socket is None and isinstance(failure, OSError):
            raise _Unsent(str(failure)) from failure
        if failure is not None:
            raise failure
        return self._answer

    def _run(self, timeout, *request):
        try:
            self._connection.connect()
            self._connection.sock.settimeout(timeout)  # connect had less
            with self._mutex:
                if self._abandoned:
                    return
                self._socket = self._connection.sock
            self._connection.request(*request)
            with self._connection.getresponse() as response:
                content = response.read(_MAX_ANSWER)
                if response.length:  # read does not notice that the connection ended too early
                    raise http.client.IncompleteRead(content, response.length)
            self._answer = response.status, content
        except BaseException as error:
            self._failure = error
        finally:
            self._connection.close()
            self._done.set()


class Hold:
    """One acquisition, from the grant until it is released or lost. It is a context manager. All methods are safe for use by
    several threads."""

    def __init__(self, client, name, place, release, grant, sent):
        self._client, self._name, self._place, self._release = client, name, place, release
        self._lock_token = grant["lockToken"]
        self._ttl = grant["ttlMillis"] / 1000
        self._mutex = threading.Lock()  # guards the three fields that follow
        self._end = sent.plus(grant["validMillis"] / 1000)
        self._cause = None  # why it ended
        self._failure = "none failed"  # of the last renewal
        self._ended = threading.Event()
        # A daemon: a program that forgets the release can still exit, and the lease ends.
        self._thread = threading.Thread(target=self._renew, name=f"lockkeeper renews {name}", daemon=True)
        self.token = int(grant["fencingToken"])

    def _start(self):
        self._thread.start()
        return self

    def remaining(self):
        """Returns the seconds until the work must have stopped unless the lease is renewed: 0 once the hold has ended.

        That is an eighth of the TTL before the lease ends."""
        with self._mutex:
            left = self._end.left() - self._ttl / 8
            if left <= 0 and self._cause is None:
                self._cause = f"no renewal in time: {self._failure}"
            if self._cause is None:
                return left
        self._ended.set()
        return 0.0

    def valid(self):
        """Reports whether the lock is held. It checks the clock."""
        return self.remaining() > 0

    def check(self):
        """Raises Lost if the lock is not held."""
        if not self.valid():
            raise Lost(f"hold {self._name}: {self._cause}")

    def wait(self, timeout=None):
        """Waits until the hold has ended, for timeout seconds at most, and reports whether it has. It reads the clocks each
        second: a wait stands still while the machine is suspended."""
        until = None if timeout is None else time.monotonic() + timeout
        while self.valid():
            left = min(1.0, self.remaining())
            if until is not None:
                left = min(left, until - time.monotonic())
                if left <= 0:
                    return False
            self._ended.wait(left)
        return True

    def _end_with(self, cause):
        """Ends the hold, and reports whether it was held."""
        held = self.valid()
        with self._mutex:
            first = held and self._cause is None
            if first:
                self._cause = cause
        self._ended.set()
        return first

    def _renew(self):
        backoff = _Backoff(len(self._client._bases), self._ttl / 16)
        pause = min(self._ttl, self.remaining()) / 3
        while not self._ended.wait(pause) and self.valid():
            sent = _Instant()
            body = {"ownerId": self._client.owner, "lockToken": self._lock_token, "ttlMillis": round(self._client.ttl * 1000)}
            try:
                _, grant = self._client._send(self._place + "renew", body, min(self._ttl / 4, 5))
                end = sent.plus(grant["validMillis"] / 1000)
                self._lock_token = grant.get("lockToken", self._lock_token)  # the key of an older one may be gone
                with self._mutex:
                    if end.monotonic > self._end.monotonic:
                        self._end = end
                backoff.failures = 0
                pause = min(self._ttl, self.remaining()) / 3
            except Problem as problem:
                if problem._ends_lease():
                    self._end_with(str(problem))
                    return
                pause = self._failed(backoff, problem)
            except Exception as error:  # a bearer function can raise anything; the deadline ends the hold
                pause = self._failed(backoff, error)

    def _failed(self, backoff, error):
        with self._mutex:
            self._failure = error
        return backoff.after(error)

    def release(self):
        """Ends the hold, waits for its thread, and asks the service, for 5 s at most each. Raises Lost if the lock had been
        lost before, and Unavailable if no replica confirmed: the lock is then free when the lease has ended. A second call does
        nothing."""
        if self._cause == "released":
            return
        held = self._end_with("released")
        self._thread.join(_RELEASE_TIMEOUT)  # it is waiting for an answer, or for the bearer function
        body = {"ownerId": self._client.owner, "lockToken": self._lock_token}
        end, backoff, repeated = time.monotonic() + (_RELEASE_TIMEOUT if held else 1.0), _Backoff(len(self._client._bases), 1.0), False
        while True:
            try:
                self._client._send(self._place + self._release, body, self._client._share(end - time.monotonic(), _RELEASE_TIMEOUT / 2))
                break
            except Problem as problem:
                if problem.code == "LOCK_RELEASED" or problem.code == "LOCK_EXPIRED" and repeated:
                    break  # an earlier request whose answer was lost has released it
                if problem._ends_lease():
                    if held:
                        raise Lost(f"release {self._name}: {problem}") from problem
                    break
                # After a refusal of the caller: another replica may accept it.
                failure, repeated = problem, repeated or not problem._definite()
            except _FAILURES as error:
                failure, repeated = error, repeated or not isinstance(error, _Unsent)
            pause = backoff.after(failure)
            if time.monotonic() + pause > end:
                if held:
                    raise Unavailable(f"release {self._name}: {failure}") from failure
                break
            time.sleep(pause)
        if not held:
            raise Lost(f"hold {self._name}: {self._cause}")

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            self.release()
        except Error:
            if error is None:
                raise  # else the error of the block is the one to see


class _Instant:
    """An instant by both clocks: the monotonic one stands still while the machine is suspended, the wall clock does not."""

    def __init__(self, monotonic=None, wall=None):
        self.monotonic = time.monotonic() if monotonic is None else monotonic
        self.wall = time.time() if wall is None else wall

    def plus(self, seconds):
        return _Instant(self.monotonic + seconds, self.wall + seconds)

    def left(self):
        """Returns the time until then, by the clock by which more time has passed."""
        return min(self.monotonic - time.monotonic(), self.wall - time.time())


class _Backoff:
    """The time before a request is repeated: none before each replica was tried once, then twice as much each round."""

    def __init__(self, replicas, longest):
        self.replicas, self.longest, self.failures = replicas, longest, 0

    def after(self, error):
        self.failures += 1
        if isinstance(error, Problem) and error.status == 429:
            return max(self.longest / 2, error.document.get("retryAfterMillis", 0) / 1000)
        rounds = self.failures // self.replicas
        if rounds == 0:
            return 0.0
        return min(0.025 * 2 ** min(rounds, 16), self.longest) * random.uniform(0.5, 1)


def _base(url):
    """Returns the parts of the URL of a service."""
    try:
        base = urllib.parse.urlsplit(url)
        if base.scheme in ("http", "https") and base.hostname and base.port != 0 and " " not in url and base.path.isascii():
            return base
    except ValueError:
        pass  # of the port, for instance
    raise ValueError(f"new client: {url!r} is not the URL of a lock service")


def _escape(segment):
    """Returns a segment of a path. Dot segments are escaped too: servers and proxies would resolve them."""
    if segment in (".", ".."):
        return segment.replace(".", "%2E")
    return urllib.parse.quote(segment, safe="")

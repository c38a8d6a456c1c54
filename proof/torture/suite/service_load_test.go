// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// callers is how many callers of one principal loop over refused acquires. They send far more requests than its rate allows.
const callers = 8

// An httpAnswer is the answer of a replica to one request.
type httpAnswer struct {
	status int
	body   map[string]any
}

func (a httpAnswer) text(field string) string {
	text, _ := a.body[field].(string)
	return text
}

// posting returns a function that sends a request of the principal team for one of its locks, such as orders/renew, to the
// replica. It is safe for concurrent use.
func (r *replica) posting() func(operation, body string) (httpAnswer, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: callers + 1}
	r.service.env.T.Cleanup(transport.CloseIdleConnections)
	return func(operation, body string) (a httpAnswer, err error) {
		res, err := r.send(transport, http.MethodPost, operation, strings.NewReader(body))
		if err != nil {
			return a, err
		}
		defer func() { _ = res.Body.Close() }()
		a.status = res.StatusCode
		return a, json.NewDecoder(res.Body).Decode(&a.body)
	}
}

// send sends a request of the principal team for one of its locks.
func (r *replica) send(transport *http.Transport, method, operation string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(r.service.env.Ctx, method, r.url+"/v1/locks/team/"+operation, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer one")
	req.Header.Set("Content-Type", "application/json")
	return (&http.Client{Transport: transport}).Do(req)
}

// post sends a request, whose answer must have that status.
func (r *replica) post(operation string, status int, body string) httpAnswer {
	t := r.service.env.T
	t.Helper()
	a, err := r.posting()(operation, body)
	require.NoError(t, err)
	require.Equal(t, status, a.status, a.body)
	return a
}

// acquire acquires team/orders, for a minute if other is empty.
func (r *replica) acquire(owner string, status int, other string) httpAnswer {
	r.service.env.T.Helper()
	if other == "" {
		other = `"ttlMillis": 60000`
	}
	return r.post("orders/acquire", status, fmt.Sprintf(`{"ownerId": %q, "requestId": %q, %s}`, owner, owner, other))
}

// proof is the body of a request of the holder that this answer made one.
func (a httpAnswer) proof() string {
	return fmt.Sprintf(`{"ownerId": %q, "lockToken": %q}`, a.text("ownerId"), a.text("lockToken"))
}

// A storm is a number of callers that loop over acquires of team/orders, which is held.
type storm struct {
	calm                func()
	refused, overloaded atomic.Int64 // answers 409 and 429
}

// storm begins a storm. It ends with calm, or with the test.
func (r *replica) storm() *storm {
	t := r.service.env.T
	post, w := r.posting(), &storm{}
	stop, running := make(chan struct{}), sync.WaitGroup{}
	w.calm = sync.OnceFunc(func() {
		close(stop)
		running.Wait()
	})
	t.Cleanup(w.calm)
	for i := range callers {
		running.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond): // without it the callers would measure the processors
				}
				a, err := post("orders/acquire", fmt.Sprintf(`{"ownerId": "loop-%d", "requestId": "%d"}`, i, n))
				switch {
				case err != nil:
					if r.service.env.Ctx.Err() == nil {
						t.Errorf("acquire: %v", err)
					}
					return
				case a.status == http.StatusConflict:
					w.refused.Add(1)
				case a.status == http.StatusTooManyRequests:
					w.overloaded.Add(1)
				default:
					t.Errorf("acquire: %d %v", a.status, a.body)
					return
				}
			}
		})
	}
	return w
}

// exceeds waits until n more acquires were above the rate of the principal.
func (w *storm) exceeds(s *env, n int64) {
	s.T.Helper()
	n += w.overloaded.Load()
	s.Eventually("acquires above the rate", func() bool { return w.overloaded.Load() >= n })
}

// The loop takes the whole rate of its principal. What keeps a lease and gives it back has a budget of its own.
func TestLoopOfAcquiresCostsItsPrincipalNoLease(t *testing.T) {
	t.Parallel()
	s := withCommand(t)
	r := s.service().start()
	r.acquire("holder", http.StatusOK, "")
	hold := r.post("invoices/acquire", http.StatusOK, `{"ownerId": "holder", "requestId": "1"}`)
	run := s.launch(append(append([]string{"run"}, r.access()...), "--ttl", "12s", "--lock", "team/ledger", "--", "sh", "-c", "echo holds; read line; exit 7")...)
	s.line(run, "holds")
	loop := r.storm()
	renewed := []string{`"action":"renew"`, `"status":200`, `"key":"ledger"`}
	before := r.logged(renewed...)
	for range 10 {
		loop.exceeds(s, 20)
		hold = r.post("invoices/renew", http.StatusOK, hold.proof())
	}
	s.Eventually("a renewal of the command", func() bool { return r.logged(renewed...) > before })
	require.NoError(t, run.Send("go on"))
	require.Equal(t, 7, s.status(run), run.Output())
	require.Empty(t, s.Nodes("locks/team/ledger"), "the command has released it")
	loop.exceeds(s, 50)
	r.post("invoices/release", http.StatusOK, hold.proof())
	require.Empty(t, s.Nodes("locks/team/invoices"))
	loop.exceeds(s, 1)
	loop.calm()
	r.stop()
}

// The requests are counted at the server: the same hand-offs, with one stream and with many. No other test runs beside it, which
// would be counted.
func TestStreamsOfOneKeyShareTheirReads(t *testing.T) {
	_, err := program.path()
	require.NoError(t, err)
	s := onOne(t)
	r := s.service().start()
	const many, rounds = 50, 3
	var streams []*eventStream
	open := func(n int) {
		for len(streams) < n {
			streams = append(streams, r.stream())
		}
	}
	handOff := func() {
		for range rounds {
			hold := r.acquire("holder", http.StatusOK, "")
			for _, e := range streams {
				e.shows(hold.text("fencingToken"))
			}
			r.post("orders/release", http.StatusOK, hold.proof())
			for _, e := range streams {
				e.shows("")
			}
		}
	}
	cost := func(f func()) int {
		before := s.requests()
		f()
		return s.requests() - before
	}
	open(1)
	alone := cost(handOff)
	opening := cost(func() { open(many) })
	together := cost(handOff)
	t.Logf("%d hand-offs: %d requests with one stream, %d with %d, which took %d to open", rounds, alone, together, many, opening)
	require.Less(t, together, 2*alone+many)
}

// requests returns how many packets the only server has received from all connections but the test's own.
func (s *env) requests() (n int) {
	s.T.Helper()
	own := fmt.Sprintf("%x", uint64(s.ZK.SessionID()))
	answer, err := s.ensemble.Servers()[0].FourLetter(s.Ctx, "cons")
	require.NoError(s.T, err)
	for line := range strings.Lines(answer) {
		if m := cons.FindStringSubmatch(line); m != nil && m[2] != own {
			count, err := strconv.Atoi(m[1])
			require.NoError(s.T, err)
			n += count
		}
	}
	return n
}

// An eventStream follows the lock team/orders.
type eventStream struct {
	env   *env
	lines chan string // of the stream
}

// stream opens an event stream, which ends with the test, and waits for its first event.
func (r *replica) stream() *eventStream {
	s := r.service.env
	s.T.Helper()
	transport := &http.Transport{}
	res, err := r.send(transport, http.MethodGet, "orders/events", nil)
	require.NoError(s.T, err)
	require.Equal(s.T, http.StatusOK, res.StatusCode)
	e := &eventStream{env: s, lines: make(chan string, 1000)}
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			e.lines <- lines.Text()
		}
	})
	s.T.Cleanup(func() {
		_ = res.Body.Close()
		reading.Wait()
		transport.CloseIdleConnections()
	})
	e.shows("")
	return e
}

// shows waits until the stream shows the holder with that token, or none.
func (e *eventStream) shows(token string) {
	e.env.T.Helper()
	for {
		data, found := strings.CutPrefix(await(e.env, e.lines), "data: ")
		var status struct{ FencingToken string }
		if found && json.Unmarshal([]byte(data), &status) == nil && status.FencingToken == token {
			return
		}
	}
}

// Of the refusals the log has a sample, and the audit none that were above the rate.
func TestLoopFillsNeitherLogNorAuditWhichSIGHUPRotates(t *testing.T) {
	s := withCommand(t)
	r := s.service().start()
	hold := r.acquire("holder", http.StatusOK, "")
	loop := r.storm()
	loop.exceeds(s, 500)
	loop.calm()
	logged := strings.Count(r.process.Output(), `"code":"TOO_MANY_REQUESTS"`)
	t.Logf("%d refusals above the rate, of which %d are logged", loop.overloaded.Load(), logged)
	require.Positive(t, logged)
	require.Less(t, logged, 300, "100, and then one a second")
	audited := func(file, text string) int {
		rows, err := os.ReadFile(file)
		require.NoError(t, err)
		return strings.Count(string(rows), text)
	}
	require.Zero(t, audited(r.audit, "TOO_MANY_REQUESTS"))
	require.Equal(t, 1, audited(r.audit, `"status":200`), "the holder's acquire")

	rotated := r.audit + ".1"
	require.NoError(t, os.Rename(r.audit, rotated))
	require.NoError(t, r.process.Signal(syscall.SIGHUP))
	s.Eventually("the audit is opened again", func() bool { return strings.Contains(r.process.Output(), "audit file opened again") })
	r.post("orders/release", http.StatusOK, hold.proof())
	s.Eventually("the release is in the new file", func() bool { return audited(r.audit, `"action":"release"`) == 1 })
	require.Zero(t, audited(rotated, `"action":"release"`))
	s.interrupt(r.process)
	require.Equal(t, 0, s.status(r.process))
}

// A replica that stops ends the polls of its waiters with 202, and this one does not ask again.
func TestDeadWaiterBlocksAFreeLockForSeconds(t *testing.T) {
	t.Parallel()
	s := withCommand(t)
	locks := s.service()
	first, second := locks.start(), locks.start()
	hold := second.acquire("holder", http.StatusOK, "")
	require.Equal(t, "holder", second.acquire("next", http.StatusConflict, `"waitMillis": 0`).text("currentOwner"))
	post, polled := first.posting(), make(chan httpAnswer, 1)
	go func() {
		a, err := post("orders/acquire", `{"ownerId": "dead", "requestId": "1", "ttlMillis": 60000, "waitMillis": 3600000}`)
		if err != nil {
			t.Errorf("poll: %v", err)
		}
		polled <- a
	}()
	s.Waiting(orders, 2)
	s.interrupt(first.process)
	dead := await(s, polled)
	require.Equal(t, http.StatusAccepted, dead.status, dead.body)
	within, _ := dead.body["askWithinMillis"].(float64)
	require.Positive(t, within)
	require.LessOrEqual(t, within, 10_000.0, "the bound is seconds")
	require.Equal(t, "holder", dead.text("currentOwner"))

	second.post("orders/release", http.StatusOK, hold.proof())
	if a, err := second.posting()("orders/acquire", `{"ownerId": "next", "requestId": "2"}`); a.status == http.StatusConflict {
		require.Empty(t, a.text("currentOwner"), "the dead waiter has never held the lock")
	} else {
		require.NoError(t, err)
		t.Logf("the waiter's bound had passed by then: %d %v", a.status, a.body)
		second.post("orders/release", http.StatusOK, a.proof())
	}
	next := second.acquire("next", http.StatusOK, `"waitMillis": 3600000`) // a poll of 20 s ends with 202
	second.post("orders/release", http.StatusOK, next.proof())
	require.Equal(t, 0, s.status(first.process))
}

// SPDX-License-Identifier: Apache-2.0

//go:build linux

package fences

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
	"github.com/lockkeeper/lockkeeper/recipes"
)

var trials = flag.Int("fences.trials", 8, "stale writes to each guard")

const (
	parallel   = 8 // trials at the same time: they mostly wait for sessions to expire
	oldSession = 3 * time.Second
	newSession = 10 * time.Second // must not expire
	attempts   = 5                // per trial: on a busy machine its preparation can fail
)

// A process that holds the lock is stopped until its session has expired. Another client acquires the lock and writes. The
// first process continues and writes immediately, because it still believes that it holds. Every guard rejects that write and
// keeps the value of the newer holder.
func TestStaleWriteOfAStoppedProcessIsRejectedByEveryGuard(t *testing.T) {
	setup := newStaleWriteTest(t)
	var (
		group sync.WaitGroup
		next  = make(chan int)
		mu    sync.Mutex // guards what follows
		total = map[string]tally{}
		errs  []error
	)
	for range parallel {
		group.Go(func() {
			for trial := range next {
				rejections, err := setup.trial(t.Context(), trial, setup.guards)
				for attempt := 1; errors.Is(err, errSetup) && attempt < attempts; attempt++ {
					t.Logf("trial %d: repeated: %v", trial, err)
					rejections, err = setup.trial(t.Context(), trial+attempt*1000, setup.guards)
				}
				mu.Lock()
				if err != nil {
					errs = append(errs, fmt.Errorf("trial %d: %w", trial, err))
				}
				for kind, n := range rejections {
					total[kind] = total[kind].plus(n)
				}
				mu.Unlock()
			}
		})
	}
	for trial := range *trials {
		next <- trial
	}
	close(next)
	group.Wait()
	require.NoError(t, errors.Join(errs...))
	for _, d := range setup.guards {
		require.Equal(t, *trials, total[d.Kind].rejected, d.Kind)
	}
	require.Equal(t, *trials, total["zookeeper"].rejected)
	for kind, n := range total {
		t.Logf("%s: %d stale writes rejected, %d of them by a process that held the lock at its last check", kind, n.rejected, n.held)
	}
}

// A tally counts the stale writes that a guard rejected.
type tally struct {
	rejected int
	held     int // of these, by a process that held the lock at its last check
}

func (n tally) plus(m tally) tally { return tally{n.rejected + m.rejected, n.held + m.held} }

// A process that is stopped in the middle of an admitted write makes newer writers wait: its write comes before theirs, never
// after.
func TestProcessStoppedWithinItsWriteComesBeforeTheNewerOne(t *testing.T) {
	setup := newStaleWriteTest(t)
	for i, d := range setup.guards {
		if !holdsWithin[d.Kind] {
			continue
		}
		t.Run(d.Kind, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, setup.within(t.Context(), *trials+i, d))
		})
	}
}

// holdsWithin lists the guards whose check holds a lock until the write is done. The others check and write in one step.
var holdsWithin = map[string]bool{"files": true, "sqlite": true, "postgres": true, "mariadb": true}

// A staleWriteTest is the environment of these tests: an ensemble, the client of the newer holder, and the guards.
type staleWriteTest struct {
	t        *testing.T
	ensemble *docker.Ensemble
	root     string // of its paths
	client   *recipes.Client
	guards   []guardSpec
}

var ensemble struct {
	once    sync.Once
	running *docker.Ensemble
	err     error
	used    atomic.Int64 // times
}

func closeEnsemble() error {
	if ensemble.running == nil {
		return nil
	}
	return ensemble.running.Close()
}

// startEnsemble returns one ensemble for all tests, and the beginning of paths that only this test uses.
func startEnsemble(t *testing.T) (all *docker.Ensemble, root string) {
	t.Helper()
	ensemble.once.Do(func() {
		ensemble.running, ensemble.err = docker.Run(context.WithoutCancel(t.Context()), &docker.Options{Servers: 1, Tick: newSession / 20})
	})
	if errors.Is(ensemble.err, docker.ErrNoBackend) {
		need.Lacking(t, "%v", ensemble.err)
	}
	require.NoError(t, ensemble.err)
	return ensemble.running, fmt.Sprintf("/stale-%d", ensemble.used.Add(1))
}

func newStaleWriteTest(t *testing.T) *staleWriteTest {
	t.Helper()
	next, _ := buckets(t)
	objects, err := json.Marshal(next())
	require.NoError(t, err)
	s := &staleWriteTest{
		t: t,
		guards: []guardSpec{
			{"files", t.TempDir()},
			{"sqlite", empty(t, "WAL").dsn},
			{"postgres", pgx.empty(t).dsn},
			{"mariadb", maria.empty(t).dsn},
			{"redis", stores.Redis(t, nil).Addr},
			{"s3", string(objects)},
			{"http", serve(t)},
		},
	}
	s.ensemble, s.root = startEnsemble(t)
	client, err := recipes.Connect(t.Context(), s.ensemble.Addrs(), &recipes.Options{SessionTimeout: newSession})
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	s.client = client
	return s
}

// errSetup is wrapped in the error of a trial that failed before the stale write, mostly because a session was lost.
var errSetup = errors.New("the trial failed before the stale write")

// setupFailed wraps an error from before the stale write.
func setupFailed(err error) error { return fmt.Errorf("%w: %w", errSetup, err) }

// trial returns how many stale writes each guard rejected, or an error for a broken promise.
func (s *staleWriteTest) trial(ctx context.Context, number int, guardSpecs []guardSpec) (map[string]tally, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	old, older, err := s.holder(ctx, number, guardSpecs, false)
	if err != nil {
		return nil, setupFailed(err)
	}
	defer old.Kill()
	writes := len(guardSpecs) + 1
	for range writes {
		r, err := old.next()
		if err == nil && r.Error != "" {
			err = fmt.Errorf("%s: the holder's own write: %s", r.Write, r.Error)
		}
		if err != nil {
			return nil, setupFailed(err)
		}
	}
	if r, err := old.next(); err != nil || !r.Waits {
		return nil, errors.Join(fmt.Errorf("the holder does not wait: %+v", r), err)
	}
	if err := old.Stop(); err != nil {
		return nil, err
	}
	newer, err := s.takeOver(ctx, number)
	if err != nil {
		return nil, setupFailed(err)
	}
	defer func() { _ = newer.Unlock(ctx) }() // no other client needs the lock
	for _, d := range guardSpecs {
		if err := s.write(ctx, d, number, newer.Token()); err != nil {
			return nil, err
		}
	}
	if _, err := newer.Commit(ctx, &zk.SetDataRequest{Path: s.state(number), Data: []byte(newest), Version: -1}); err != nil {
		return nil, setupFailed(err)
	}

	// Send the command before the process continues, so that it writes immediately.
	if err := errors.Join(old.Send("write"), old.Continue()); err != nil {
		return nil, err
	}
	rejected := map[string]tally{}
	for range writes {
		r, err := old.next()
		switch {
		case err != nil:
			return nil, err
		case r.Error == "":
			return nil, fmt.Errorf("%s: the stale write was accepted", r.Write)
		case r.Write == "zookeeper":
			if !r.Lost {
				return nil, fmt.Errorf("%s: rejected, but not because the claim is lost: %s", r.Write, r.Error)
			}
		case r.Stale == nil || *r.Stale != (fencing.StaleError{Token: older, Newest: newer.Token()}):
			return nil, fmt.Errorf("%s: want token %d rejected after %d: %s", r.Write, older, newer.Token(), r.Error)
		}
		n := tally{rejected: 1}
		if r.Held {
			n.held = 1
		}
		rejected[r.Write] = n
	}
	for _, d := range guardSpecs {
		if err := s.holds(ctx, d, number); err != nil {
			return nil, err
		}
	}
	data, _, err := s.client.Conn().Get(s.state(number))
	if err == nil && string(data) != newest {
		err = fmt.Errorf("the node contains %q, want %q", data, newest)
	}
	if err != nil {
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	return rejected, nil
}

// newest is the value that the newer holder writes.
const newest = "value of the newer holder"

// within stops a holder in the middle of an admitted write, and requires that a newer write waits for it.

func (s *staleWriteTest) within(ctx context.Context, number int, d guardSpec) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	old, _, err := s.holder(ctx, number, []guardSpec{d}, true)
	if err != nil {
		return err
	}
	defer old.Kill()
	r, err := old.next()
	if err == nil && r.Within != d.Kind {
		err = fmt.Errorf("the holder is not between check and write: %+v", r)
	}
	if err != nil {
		return err
	}
	if err := old.Stop(); err != nil {
		return err
	}
	newer, err := s.takeOver(ctx, number)
	if err != nil {
		return err
	}
	defer func() { _ = newer.Unlock(ctx) }()

	written := make(chan error, 1)
	go func() { written <- s.write(ctx, d, number, newer.Token()) }()
	select {
	case err := <-written:
		return errors.Join(errors.New("a newer write did not wait for the admitted one"), err)
	case <-time.After(time.Second): // much longer than a write takes
	}
	if err := errors.Join(old.Send("go on"), old.Continue()); err != nil {
		return errors.Join(err, <-written)
	}
	if err := <-written; err != nil {
		return err
	}
	r, err = old.next()
	if err == nil && (r.Write != d.Kind || r.Error != "") {
		err = fmt.Errorf("the admitted write: %+v", r)
	}
	if err != nil {
		return err
	}
	return s.holds(ctx, d, number)
}

func (s *staleWriteTest) path(number int) string     { return fmt.Sprintf("%s/lock-%d", s.root, number) }
func (s *staleWriteTest) state(number int) string    { return fmt.Sprintf("%s-%d", s.root, number) }
func (s *staleWriteTest) resource(number int) string { return fmt.Sprintf("ledger %d", number) }

// holder starts a holder and returns its token.
func (s *staleWriteTest) holder(ctx context.Context, number int, guardSpecs []guardSpec, within bool) (*holderProcess, fencing.Token, error) {
	h := holder{
		Servers: s.ensemble.Addrs(), Timeout: oldSession, Lock: s.path(number),
		Resource: s.resource(number), Guards: guardSpecs, Within: within,
	}
	if !within {
		h.State = s.state(number)
		if _, err := s.client.Conn().Create(h.State, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			return nil, 0, fmt.Errorf("create %s: %w", h.State, err)
		}
	}
	cmd := holding.Command(ctx, h)
	cmd.Stderr = os.Stderr
	process, err := child.Start(s.t, cmd)
	if err != nil {
		return nil, 0, err
	}
	p := &holderProcess{process, ctx}
	r, err := p.next()
	if err == nil && !r.Granted.Valid() {
		err = fmt.Errorf("the holder's first report is %+v", r)
	}
	if err != nil {
		p.Kill()
		return nil, 0, err
	}
	return p, r.Granted, nil
}

// takeOver acquires the lock as the newer holder.
func (s *staleWriteTest) takeOver(ctx context.Context, number int) (*lock.Hold, error) {
	mu, err := lock.New(s.client, s.path(number), nil)
	if err != nil {
		return nil, err
	}
	return mu.Lock(ctx)
}

// write writes through a guard as the newer holder.
func (s *staleWriteTest) write(ctx context.Context, d guardSpec, number int, token fencing.Token) error {
	o, err := d.open(nil)
	if err != nil {
		return err
	}
	err = o.Write(ctx, s.resource(number), token, newest)
	if err != nil {
		err = fmt.Errorf("%s: the write of the newer holder: %w", d.Kind, err)
	}
	return errors.Join(err, o.close())
}

// holds returns nil if the newer holder wrote the guarded value.
func (s *staleWriteTest) holds(ctx context.Context, d guardSpec, number int) error {
	o, err := d.open(nil)
	if err != nil {
		return err
	}
	value, err := o.Value(ctx, s.resource(number))
	if err == nil && value != newest {
		err = fmt.Errorf("the guard kept %q, want %q", value, newest)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", d.Kind, err)
	}
	return errors.Join(err, o.close())
}

// A holderProcess is a holder's process, from the view of its parent.
type holderProcess struct {
	*child.Process
	ctx context.Context // its end kills the process
}

// next waits for the holder's next report.
func (o *holderProcess) next() (holderReport, error) {
	var r holderReport
	line, err := o.Await(o.ctx)
	if err == nil {
		err = json.Unmarshal([]byte(line), &r)
	}
	if err != nil {
		return r, fmt.Errorf("read the holder's report: %w", err)
	}
	return r, nil
}

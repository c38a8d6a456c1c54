// SPDX-License-Identifier: Apache-2.0

//go:build linux

package fences

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/torture/stores"
)

const (
	trials      = 100 // in how many the doors of this machine are tried
	serverTrial = 20  // in how many those of servers are
	atATime     = 12  // trials go side by side: they wait for sessions to expire most of the time
	oldSession  = 3 * time.Second
	newSession  = 10 * time.Second // which is not to be lost
	attempts    = 5                // at a trial, where the machine is so busy that its preparation comes to nothing
)

// A process that holds the lock is stopped for longer than its session lives. Another takes the lock and writes. The
// first continues and writes immediately, because it still believes that it holds: every guard rejects the write, and what is kept is
// the newer one's.
func TestStaleWriteOfAStoppedProcessIsRejectedByEveryGuard(t *testing.T) {
	setup := newLateStage(t)
	var (
		group sync.WaitGroup
		next  = make(chan int)
		mu    sync.Mutex // guards what follows
		total = map[string]tally{}
		errs  []error
	)
	for range atATime {
		group.Go(func() {
			for trial := range next {
				guardSpecs := setup.local
				if trial < serverTrial {
					guardSpecs = append(guardSpecs[:len(guardSpecs):len(guardSpecs)], setup.servers...)
				}
				refusals, err := setup.trial(t.Context(), trial, guardSpecs)
				for attempt := 1; errors.Is(err, errSetup) && attempt < attempts; attempt++ {
					t.Logf("trial %d: begun again: %v", trial, err)
					refusals, err = setup.trial(t.Context(), trial+attempt*1000, guardSpecs)
				}
				mu.Lock()
				if err != nil {
					errs = append(errs, fmt.Errorf("trial %d: %w", trial, err))
				}
				for kind, n := range refusals {
					total[kind] = total[kind].plus(n)
				}
				mu.Unlock()
			}
		})
	}
	for trial := range trials {
		next <- trial
	}
	close(next)
	group.Wait()
	require.NoError(t, errors.Join(errs...))
	for _, d := range setup.local {
		require.Equal(t, trials, total[d.Kind].refused, d.Kind)
	}
	for _, d := range setup.servers {
		require.Equal(t, serverTrial, total[d.Kind].refused, d.Kind)
	}
	require.Equal(t, trials, total["zookeeper"].refused)
	for kind, n := range total {
		t.Logf("%s: %d late writes refused, %d of them of a process that held the lock when it last looked", kind, n.refused, n.held)
	}
}

// A tally counts the stale writes that a guard rejected.
type tally struct {
	refused int
	held    int // of those, by a process that held the lock when it last looked
}

func (n tally) plus(m tally) tally { return tally{n.refused + m.refused, n.held + m.held} }

// A process that is stopped in the middle of an admitted write makes newer writers wait: its write comes before theirs, never
// after.
func TestProcessStoppedWithinItsWriteComesBeforeTheNewerOne(t *testing.T) {
	setup := newLateStage(t)
	for i, d := range slices.Concat(setup.local, setup.servers) {
		if !holdsWithin[d.Kind] {
			continue
		}
		t.Run(d.Kind, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, setup.within(t.Context(), trials+i, d))
		})
	}
}

// holdsWithin are the guards whose check holds a lock until the write is done. The others check and write in one step.
var holdsWithin = map[string]bool{"files": true, "sqlite": true, "postgres": true, "mariadb": true}

// A staleWriteTest has what these tests need: an ensemble, a client that takes over, and a place for each guard's state.
type staleWriteTest struct {
	t              *testing.T
	ensemble       *docker.Ensemble
	client         *recipes.Client
	local, servers []guardSpec // those whose state is this machine's, and those of servers
}

func newLateStage(t *testing.T) *staleWriteTest {
	t.Helper()
	next, _ := buckets(t)
	objects, err := json.Marshal(next())
	require.NoError(t, err)
	s := &staleWriteTest{
		t:     t,
		local: []guardSpec{{"files", t.TempDir()}, {"sqlite", empty(t, "WAL").dsn}},
		servers: []guardSpec{
			{"postgres", pgx.empty(t).dsn},
			{"mariadb", maria.empty(t).dsn},
			{"redis", stores.Redis(t, nil).Addr},
			{"s3", string(objects)},
			{"http", serve(t)},
		},
	}
	s.ensemble = docker.Start(t, &docker.Options{Servers: 1, Tick: newSession / 20})
	client, err := recipes.Connect(t.Context(), s.ensemble.Addrs(), &recipes.Options{SessionTimeout: newSession})
	require.NoError(t, err)
	t.Cleanup(client.Close)
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
	defer func() { _ = newer.Unlock(ctx) }() // no other client needs the lock any more
	for _, d := range guardSpecs {
		if err := s.write(ctx, d, number, newer.Token()); err != nil {
			return nil, err
		}
	}
	if _, err := newer.Commit(ctx, &zk.SetDataRequest{Path: s.state(number), Data: []byte(newest), Version: -1}); err != nil {
		return nil, setupFailed(err)
	}

	// The command is sent before the process continues: it writes as soon as it does.
	if err := errors.Join(old.Send("write"), old.Continue()); err != nil {
		return nil, err
	}
	refused := map[string]tally{}
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
		n := tally{refused: 1}
		if r.Held {
			n.held = 1
		}
		refused[r.Write] = n
	}
	for _, d := range guardSpecs {
		if err := s.holds(ctx, d, number); err != nil {
			return nil, err
		}
	}
	data, _, err := s.client.Conn().Get(s.state(number))
	if err == nil && string(data) != newest {
		err = fmt.Errorf("kept is %q, want %q", data, newest)
	}
	if err != nil {
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	return refused, nil
}

const newest = "the newer one's"

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
		err = fmt.Errorf("the holder is not within its write: %+v", r)
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
		return errors.Join(errors.New("a newer write did not wait for the one that was admitted"), err)
	case <-time.After(time.Second): // as long as a write never takes
	}
	if err := errors.Join(old.Send("go on"), old.Continue()); err != nil {
		return errors.Join(err, <-written)
	}
	if err := <-written; err != nil {
		return err
	}
	r, err = old.next()
	if err == nil && (r.Write != d.Kind || r.Error != "") {
		err = fmt.Errorf("the write that was admitted: %+v", r)
	}
	if err != nil {
		return err
	}
	return s.holds(ctx, d, number)
}

func (s *staleWriteTest) path(number int) string     { return fmt.Sprintf("/late/lock-%d", number) }
func (s *staleWriteTest) state(number int) string    { return fmt.Sprintf("/late-%d", number) }
func (s *staleWriteTest) resource(number int) string { return fmt.Sprintf("ledger %d", number) }

// holder starts a holder and returns its token.
func (s *staleWriteTest) holder(ctx context.Context, number int, guardSpecs []guardSpec, within bool) (*old, fencing.Token, error) {
	h := holder{
		Servers: s.ensemble.Addrs(), Timeout: oldSession, Lock: s.path(number),
		Resource: s.resource(number), Doors: guardSpecs, Within: within,
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
	p := &old{process, ctx}
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

// takeOver waits for the lock.
func (s *staleWriteTest) takeOver(ctx context.Context, number int) (*lock.Hold, error) {
	mu, err := lock.New(s.client, s.path(number), nil)
	if err != nil {
		return nil, err
	}
	return mu.Lock(ctx)
}

func (s *staleWriteTest) write(ctx context.Context, d guardSpec, number int, token fencing.Token) error {
	o, err := d.open(nil)
	if err != nil {
		return err
	}
	err = o.Write(ctx, s.resource(number), token, newest)
	if err != nil {
		err = fmt.Errorf("%s: the newer one's write: %w", d.Kind, err)
	}
	return errors.Join(err, o.close())
}

// holds returns nil if the guarded value is the newer holder's.
func (s *staleWriteTest) holds(ctx context.Context, d guardSpec, number int) error {
	o, err := d.open(nil)
	if err != nil {
		return err
	}
	value, err := o.Value(ctx, s.resource(number))
	if err == nil && value != newest {
		err = fmt.Errorf("kept is %q, want %q", value, newest)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", d.Kind, err)
	}
	return errors.Join(err, o.close())
}

// An old is a holder process, as its parent sees it.
type old struct {
	*child.Process
	ctx context.Context // its end kills the process
}

// next waits for the holder's next report.
func (o *old) next() (holderReport, error) {
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

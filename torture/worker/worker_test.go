// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture/clock"
	"github.com/lockkeeper/lockkeeper/torture/register"
)

// A moody library fails until it is in the mood.
type moody struct {
	mood   atomic.Bool
	failed chan struct{} // a word for each failure, if somebody listens

	broken bool // a client does not outlive a failure
	made   atomic.Int64
}

var errMood = errors.New("not in the mood")

func (m *moody) Connect(context.Context, *Spec) (Client, error) {
	m.made.Add(1)
	return moodyClient{m}, nil
}
func (m *moody) Offers(string) bool   { return true }
func (m *moody) Why(err error) string { return err.Error() }

type moodyClient struct{ *moody }

func (moodyClient) Close() {}
func (c moodyClient) Acquire(ctx context.Context, _, _ string) (Hold, error) {
	if c.mood.Load() {
		return moodyHold{make(chan struct{})}, nil
	}
	select {
	case c.failed <- struct{}{}:
	default:
	}
	if ctx.Err() == nil && c.broken {
		return nil, &BrokenError{errMood}
	}
	return nil, errMood
}

type moodyHold struct{ done chan struct{} }

func (moodyHold) Grant() history.Event    { return history.Event{Token: 1} }
func (h moodyHold) Done() <-chan struct{} { return h.done }
func (moodyHold) Cause() history.Cause    { return history.GivenUp }
func (h moodyHold) GiveUp(context.Context) error {
	close(h.done)
	return nil
}

// A heard writer keeps what is said.
type heard struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(b)
}

// events are those of a kind.
func (h *heard) events(t *testing.T, kind history.Kind) []history.Event {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	events, err := history.Read(bytes.NewReader(h.text.Bytes()))
	require.NoError(t, err)
	var of []history.Event
	for _, e := range events {
		if e.Kind == kind {
			of = append(of, e)
		}
	}
	return of
}

// plays has a contender of two clients contend.
func plays(t *testing.T, library Library, register string) (says *heard, in *io.PipeWriter, over chan error) {
	t.Helper()
	spec, err := json.Marshal(Spec{
		Name: "c1.1", Paths: []string{"/a", "/b"}, Timeout: history.Instant(4 * time.Second), Began: clock.Start().Began, First: 1, Clients: 2,
		Register: register,
	})
	require.NoError(t, err)
	words, in := io.Pipe()
	says, over = &heard{}, make(chan error, 1)
	go func() { over <- RunWith(library, string(spec), words, says) }()
	t.Cleanup(func() { require.NoError(t, in.Close()) })
	return says, in, over
}

func registersOf(t *testing.T) *register.Registers {
	t.Helper()
	r, err := register.New(clock.Start(), func(history.Event) {}, false)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func TestEveryClientIsGrantedSomethingOnceMoreBeforeItEnds(t *testing.T) {
	for _, broken := range []bool{false, true} {
		library := &moody{failed: make(chan struct{}), broken: broken}
		says, in, over := plays(t, library, registersOf(t).Addr())
		<-library.failed
		_, err := io.WriteString(in, Stop+"\n")
		require.NoError(t, err)
		for range 20 {
			select {
			case <-library.failed:
			case err := <-over:
				t.Fatalf("it has ended (%v), and nothing was granted", err)
			}
		}
		require.Empty(t, says.events(t, history.Granted))
		library.mood.Store(true)
		require.NoError(t, <-over)
		require.Len(t, says.events(t, history.Granted), 2, "one of each client, and no more")
		require.Len(t, says.events(t, history.Released), 2)
		asked := says.events(t, history.Asked)
		require.Equal(t, "lock", asked[len(asked)-1].Text, "for as long as it takes")
		if broken {
			require.Greater(t, library.made.Load(), int64(10), "a client that is broken is no excuse")
		}
	}
}

func TestContenderWhoseHarnessIsGoneEndsWithoutAFarewell(t *testing.T) {
	library := &moody{failed: make(chan struct{})}
	says, in, over := plays(t, library, registersOf(t).Addr())
	<-library.failed
	require.NoError(t, in.Close())
	require.NoError(t, <-over)
	require.Empty(t, says.events(t, history.Granted))
}

func TestContenderThatCannotWriteToARegisterSaysSoOnce(t *testing.T) {
	gone, err := register.New(clock.Start(), func(history.Event) {}, false)
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	library := &moody{}
	library.mood.Store(true)
	says, in, over := plays(t, library, gone.Addr())
	require.Eventually(t, func() bool { return len(says.events(t, history.Granted)) > 4 }, time.Minute, time.Millisecond)
	_, err = io.WriteString(in, Stop+"\n")
	require.NoError(t, err)
	require.NoError(t, <-over)
	notes := says.events(t, history.Note)
	require.Len(t, notes, 1)
	require.Contains(t, notes[0].Text, "writing to the registers of /")
	require.Contains(t, notes[0].Text, "connection refused")
}

func TestContenderWhoseClockIsNotSteppedSaysSo(t *testing.T) {
	var says bytes.Buffer
	p := &player{voice: &voice{out: &says}}
	p.step(time.Hour) // this program is not built for it
	require.Contains(t, says.String(), "the wall clock was to be stepped by 1h0m0s")
}

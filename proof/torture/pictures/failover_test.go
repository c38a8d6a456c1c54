// SPDX-License-Identifier: Apache-2.0

package pictures

import (
	"errors"
	"fmt"
	"image/color"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A write is a write to the resource that checks tokens.
type write struct {
	at       time.Duration
	by       string
	rejected bool
}

// A failover is the history of a holder that is paused until another client holds the lock. Times count from its grant.
type failover struct {
	writes                           []write
	paused, granted, resumed, learnt time.Duration // granted: the lock to the other client; learnt: the holder, of its loss
	tokens                           [2]fencing.Token
}

const failoverEnd = 18 * time.Second

// runFailover runs a paused process in fake time. Its link passes nothing, and its own code stops between its last check of the
// hold and the write, as SIGSTOP would stop it.
func runFailover(t *testing.T) *failover {
	t.Helper()
	f := &failover{paused: 3 * time.Second, resumed: 16 * time.Second}
	faketime.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, &zktest.Options{Servers: 3, Tick: 500 * time.Millisecond, InMemory: true})
		link := srv.Link()
		connect := func(opts *recipes.Options) *lock.Mutex {
			client, err := recipes.Connect(t.Context(), srv.Addrs(), opts)
			require.NoError(t, err)
			t.Cleanup(func() { client.Close() })
			mu, err := lock.New(client, "/locks/ledger", nil)
			require.NoError(t, err)
			return mu
		}
		a, b := connect(&recipes.Options{Dial: link.Dial}), connect(&recipes.Options{Dial: srv.Dial})
		held, err := a.Lock(t.Context())
		require.NoError(t, err)
		began := time.Now()
		var gate fencing.Gate
		send := func(by string, token fencing.Token) {
			err := gate.Admit(token)
			f.writes = append(f.writes, write{time.Since(began), by, err != nil})
			require.True(t, err == nil || errors.Is(err, fencing.ErrStale))
		}
		next := make(chan *lock.Hold, 1)
		go func() {
			hold, err := b.Lock(t.Context())
			if err == nil {
				f.granted = time.Since(began)
				next <- hold
			}
		}()
		for range 3 { // a works
			require.NoError(t, held.Err())
			send("a", held.Token())
			time.Sleep(time.Second)
		}
		require.NoError(t, held.Err(), "the last check of a")
		link.Hold(zktest.Both)
		hold := <-next
		for time.Since(began) < f.resumed-time.Second {
			time.Sleep(time.Second)
			send("b", hold.Token())
		}
		time.Sleep(f.resumed - time.Since(began))
		link.Release()
		send("a", held.Token()) // the write that a was about to send
		synctest.Wait()
		require.ErrorIs(t, held.Err(), recipes.ErrLost)
		f.learnt = time.Since(began)
		time.Sleep(failoverEnd - time.Second - time.Since(began))
		send("b", hold.Token())
		f.tokens = [2]fencing.Token{held.Token(), hold.Token()}
		require.NoError(t, hold.Unlock(t.Context()))
		require.ErrorIs(t, held.Unlock(t.Context()), recipes.ErrLost)
	})
	return f
}

func TestPictureOfFailoverIsWhatHappens(t *testing.T) {
	f := runFailover(t)
	require.Greater(t, f.tokens[1], f.tokens[0])
	rejected := slices.DeleteFunc(slices.Clone(f.writes), func(w write) bool { return !w.rejected })
	require.Len(t, rejected, 1)
	require.Equal(t, "a", rejected[0].by)
	compare(t, "failover.svg", f.draw())
}

func (f *failover) draw() []byte {
	const left, scale, width, height = 130, 36.0, 810.0, 330.0
	c := newCanvas(width, height)
	x := func(d time.Duration) float64 { return left + scale*d.Truncate(time.Second).Seconds() }
	c.text(16, 26, 15, 0, black, true, "A paused process loses its lock, and its stale write is rejected")
	c.text(16, 44, 11, 0, grey, false, "Session timeout 10 s. Run on zktest in fake time; to the second. A dot is a write that the resource accepted.")
	lanes := map[string]float64{"a": 90, "zk": 150, "b": 210, "resource": 270}
	for _, lane := range []struct{ name, title string }{{"a", "client a"}, {"zk", "ZooKeeper"}, {"b", "client b"}, {"resource", "resource"}} {
		c.text(left-14, lanes[lane.name]+4, 13, 1, black, true, lane.title)
		c.line(left, lanes[lane.name], x(failoverEnd), lanes[lane.name], 1, pale)
	}
	bar := func(lane string, from, to time.Duration, fill color.Color, label string) {
		c.box(x(from), lanes[lane]-13, x(to)-x(from), 26, fill)
		c.text((x(from)+x(min(to, f.resumed)))/2, lanes[lane]+4, 11, 0.5, black, false, label)
	}
	bar("a", 0, f.paused, blue, "holds, older token")
	bar("a", f.paused, f.resumed, yellow, "paused: it can neither send nor notice anything")
	bar("zk", 0, f.granted, pale, "a's session lives")
	bar("zk", f.granted, failoverEnd, silver, "a's session expired")
	bar("b", 0, f.granted, yellow, "waits in the queue")
	bar("b", f.granted, failoverEnd, blue, "holds, newer token")
	for _, w := range f.writes {
		if w.rejected {
			c.line(x(w.at), lanes["a"]+13, x(w.at), lanes["resource"]-8, 1, red, 3, 3)
			c.cross(x(w.at), lanes["resource"], 5)
			c.text(x(w.at), lanes["resource"]+24, 11, 0.5, red, true, "stale write of a: rejected")
			continue
		}
		c.dot(x(w.at), lanes["resource"], 4.5, green)
	}
	c.line(x(f.granted), lanes["zk"]+13, x(f.granted), lanes["resource"]-12, 1, grey, 3, 3)
	c.text(x(f.learnt)+6, lanes["a"]+4, 11, 0, black, false, "notified")
	for s := 0; s <= int(failoverEnd.Seconds()); s += 3 {
		c.text(left+scale*float64(s), height-10, 10, 0.5, grey, false, fmt.Sprintf("%d s", s))
	}
	return c.svg()
}

// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/service/internal/history"
)

func TestStreamOfPageHasRowsAfterEachChange(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{status: lease.Status{Contenders: []lease.Contender{hostile()}}})
		r, body := f.open("admin", "/events?namespace=own")
		rows := func() string {
			name, data, _ := strings.Cut(event(t, r), "\ndata: ")
			require.Equal(t, "event: rows", name)
			var html string
			require.NoError(t, json.Unmarshal([]byte(data), &html))
			elements(t, html)
			return html
		}
		require.Contains(t, event(t, r), "retry: 1000\n")
		first := rows()
		require.Contains(t, first, "&lt;script&gt;alert(1)")
		started := time.Now()
		require.Equal(t, ": alive\n", event(t, r))
		require.Equal(t, 16*time.Second, time.Since(started), "the first read after 15 s")
		f.locks.contenders()
		require.Contains(t, rows(), "No lock is held.")
		require.Equal(t, 18*time.Second, time.Since(started))
		close(f.draining)
		_, err := r.ReadByte()
		require.ErrorIs(t, err, io.EOF)
		require.NoError(t, body.Close())
	})
}

func TestStreamOfPageReportsLostQuorumAndCountsAsWaiter(t *testing.T) {
	f := newFixture(t, &scripted{err: errZooKeeper})
	r, body := f.open("client", "/events?namespace=own")
	event(t, r)
	last := event(t, r)
	require.Contains(t, last, "event: problem\n")
	require.Contains(t, last, `"code":"UNAVAILABLE"`)
	require.NotContains(t, last, "10.1.2.3")
	require.NoError(t, body.Close())

	f = newFixture(t, &scripted{})
	for range limits.Waiters {
		r, body := f.open("client", "/events?namespace=own")
		event(t, r)
		defer func() { require.NoError(t, body.Close()) }()
	}
	require.Equal(t, "TOO_MANY_WAITERS", f.send("client", "GET", "/events?namespace=own", "").code(t))
}

func TestStreamsOfPagesThatAreNotReadAreBoundedForEachPrincipal(t *testing.T) {
	need.NoRaceDetector(t)
	faketime.Test(t, func(t *testing.T) {
		const stream = "/events?namespace=own"
		contenders := slices.Repeat([]lease.Contender{held}, 6)
		for i := range contenders {
			contenders[i].Owner = strings.Repeat("<", 256)
		}
		f := newFixture(t, &scripted{status: lease.Status{Contenders: contenders}, others: 550})
		other, closeOther := f.open("client", stream)
		event(t, other)
		size := len(event(t, other))
		require.Equal(t, 2, 16<<20/size, "two such events are within the bound")

		var unread []io.Closer
		for range 2 {
			r, body := f.open("both", stream)
			event(t, r)
			unread = append(unread, body)
		}
		synctest.Wait()
		third, closeThird := f.open("both", stream)
		event(t, third)
		for range 2 { // as long as the others are unread
			require.Equal(t, ": alive\n", event(t, third)[:len(": alive\n")])
		}
		require.Equal(t, 429, browser{f, "both", ownOrigin}.send(http.MethodGet, "/?namespace=own", "").status, "pages share the bound")
		require.NoError(t, unread[0].Close())
		synctest.Wait()
		require.Equal(t, size, len(event(t, third)), "one ended")
		f.locks.contenders()
		for _, read := range []*bufio.Reader{third, other} {
			require.Contains(t, event(t, read), "No lock is held.")
		}
		for _, body := range []io.Closer{unread[1], closeThird, closeOther} {
			require.NoError(t, body.Close())
		}
	})
}

func TestStreamsOfFirstPageAndOfKeyFollowChanges(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{status: lease.Status{Contenders: []lease.Contender{held}}})
		namespaces, closeNamespaces := f.open("client", "/events?")
		key, closeKey := f.open("admin", "/events"+strings.TrimPrefix(keyURL, "/key"))
		for r, shown := range map[*bufio.Reader]string{namespaces: `data-label=\"Locks held\"`, key: "w0"} {
			require.Contains(t, strings.ReplaceAll(event(t, r), "\\u003c", "<"), "retry: 1000")
			require.Contains(t, event(t, r), shown)
		}
		f.past.Add("own", "a/b", history.Entry{Action: history.Revoked, By: "ops", Reason: "stuck", Time: time.Now()})
		require.Contains(t, event(t, key), "stuck")
		f.locks.contenders()
		require.Contains(t, event(t, key), "No client holds the lock.")
		require.NoError(t, closeNamespaces.Close())
		require.NoError(t, closeKey.Close())
	})
}

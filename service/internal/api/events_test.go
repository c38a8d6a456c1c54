// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/lease"
)

// open opens a stream as a principal, and returns its text as it arrives.
func (f *fixture) open(who, path string) (*bufio.Reader, io.Closer) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, f.server.URL+path, nil)
	require.NoError(f.t, err)
	req.Header.Set("Authorization", "Bearer "+who)
	res, err := f.server.Client().Do(req)
	require.NoError(f.t, err)
	require.Equal(f.t, http.StatusOK, res.StatusCode)
	return bufio.NewReader(res.Body), res.Body
}

// event reads up to the empty row that ends an event or a comment.
func event(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	var text strings.Builder
	for {
		row, err := r.ReadString('\n')
		require.NoError(t, err)
		if row == "\n" {
			return text.String()
		}
		text.WriteString(row)
	}
}

func TestStreamHasStatusAndThenCommentsWhileNothingChanges(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		locks := &scripted{waiting: make(chan struct{}), status: lease.Status{Contenders: []lease.Contender{held}}}
		f := newFixture(t, locks)
		started := time.Now()
		for _, c := range []struct{ path, name, data string }{
			{"/v1/locks/own/orders/events", "lock", `"ownerId":"w0","fencingToken":"41","kind":"lease"`},
			{"/v1/elections/own/orders/observe", "leader", `"ownerId":"w0","value":"10.0.0.1:80"`},
		} {
			r, body := f.open("client", c.path)
			require.Contains(t, event(t, r), "retry: 1000")
			first := event(t, r)
			require.True(t, strings.HasPrefix(first, "event: "+c.name+"\ndata: {"), first)
			require.Contains(t, first, c.data)
			require.Equal(t, ": alive\n", event(t, r))
			require.Equal(t, ": alive\n", event(t, r))
			require.NoError(t, body.Close())
		}
		require.Equal(t, time.Minute, time.Since(started), "a comment every 15 s")
	})
}

func TestStreamThatFailsEndsWithProblem(t *testing.T) {
	f := newFixture(t, &scripted{err: errZooKeeper})
	r, body := f.open("client", "/v1/locks/own/orders/events")
	event(t, r)
	last := event(t, r)
	require.Contains(t, last, "event: problem\n")
	require.Contains(t, last, `"code":"UNAVAILABLE"`)
	require.NotContains(t, last, "10.1.2.3")
	_, err := r.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, body.Close())
}

func TestStreamEndsWhenItsPermissionIsWithdrawn(t *testing.T) {
	for code, change := range map[string][2]string{
		"UNAUTHENTICATED": {hash("client"), hash("other")},
		"FORBIDDEN":       {`"namespaces": ["own"], "roles": ["client"]}`, `"namespaces": ["default"], "roles": ["client"]}`},
	} {
		for _, path := range []string{"/v1/locks/own/orders/events", "/events?namespace=own"} {
			faketime.Test(t, func(t *testing.T) {
				f := newFixture(t, &scripted{waiting: make(chan struct{})})
				ctx, cancel := context.WithCancel(t.Context())
				var watching sync.WaitGroup
				watching.Go(func() { f.principals.Watch(ctx, time.Second, slog.New(slog.DiscardHandler)) })
				r, body := f.open("client", path)
				event(t, r)
				event(t, r)
				before, err := os.ReadFile(f.file)
				require.NoError(t, err)
				after := strings.Replace(string(before), change[0], change[1], 1)
				require.NotEqual(t, string(before), after)
				require.NoError(t, os.WriteFile(f.file, []byte(after), 0o600))
				require.Contains(t, event(t, r), `"code":"`+code+`"`)
				require.NoError(t, body.Close())
				cancel()
				watching.Wait()
			})
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
)

// A wait in one request can last for 24 h: its principal must not get a lock that it may no longer acquire.
func TestLongWaitEndsWhenItsPermissionIsWithdrawn(t *testing.T) {
	const resident = `"namespaces": ["default"], "roles": ["client"]`
	for name, tt := range map[string]struct {
		change func(file string) string
		status int
		code   string
	}{
		"credentials": {func(file string) string { return strings.Replace(file, hash("resident"), hash("other"), 1) }, 401, "UNAUTHENTICATED"},
		"namespace": {func(file string) string {
			return strings.Replace(file, resident, `"namespaces": ["own"], "roles": ["client"]`, 1)
		}, 403, "FORBIDDEN"},
		"role": {func(file string) string {
			return strings.Replace(file, resident, `"namespaces": ["default"], "roles": ["admin"]`, 1)
		}, 403, "FORBIDDEN"},
		"identity": {func(file string) string { return strings.Replace(file, `"resident"`, `"renamed"`, 1) }, 403, "FORBIDDEN"},
		"nothing":  {func(file string) string { return strings.Replace(file, hash("warden"), hash("other"), 1) }, 200, ""},
	} {
		for path, body := range map[string]string{
			"/v1/locks/orders/acquire":     `{"ownerId": "w1", "requestId": "r1", "wait": true}`,
			"/api/v1/locks/orders/acquire": `{"client_id": "w1", "wait_timeout_ms": 86400000}`,
		} {
			t.Run(name+path, func(t *testing.T) {
				faketime.Test(t, func(t *testing.T) {
					f := newFixture(t, &scripted{waiting: make(chan struct{})})
					ctx, cancel := context.WithCancel(t.Context())
					var running sync.WaitGroup
					running.Go(func() { f.principals.Watch(ctx, time.Second, slog.New(slog.DiscardHandler)) })
					var answered time.Time
					var res *response
					running.Go(func() {
						res = f.send("resident", http.MethodPost, path, body)
						answered = time.Now()
						cancel()
					})
					time.Sleep(2*time.Minute + time.Second)
					synctest.Wait()
					require.True(t, answered.IsZero())
					changed := time.Now()
					before := fmt.Sprintf(principals, hash("client"), hash("admin"), hash("both"), hash("resident"), hash("warden"), hash("slow"))
					after := tt.change(before)
					require.NotEqual(t, before, after)
					require.NoError(t, os.WriteFile(f.file, []byte(after), 0o600))
					time.Sleep(time.Minute)
					close(f.locks.waiting)
					running.Wait()
					require.Equal(t, tt.status, res.status)
					if tt.status != 200 {
						require.Equal(t, tt.code, res.code(t))
						require.LessOrEqual(t, answered.Sub(changed), 17*time.Second, "its call ended")
					}
				})
			})
		}
	}
}

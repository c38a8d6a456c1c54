// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/report"
)

func TestEachHookOfTraceGetsTheFieldsThatItNames(t *testing.T) {
	why, ctx, now := errors.New("why"), t.Context(), time.Unix(1, 0)
	call := report.Call{Context: ctx, Time: now}
	var got any
	ofSession := func(e SessionEvent) { got = e }
	ofQueue := func(e QueueEvent) { got = e }
	h := (&Trace{
		SessionOpened: ofSession, SessionEnded: ofSession, Unguarded: ofSession, Attached: ofSession, Detached: ofSession, Outage: ofSession, Heartbeat: ofSession,
		Proved: ofSession, Joined: ofQueue, Waiting: ofQueue, Granted: ofQueue, HandedOver: ofQueue, Unreleased: ofQueue, Failed: ofQueue,
		Ended: ofQueue, Lost: ofQueue, Released: ofQueue, Rejoined: ofQueue, Recovered: ofQueue, Expired: ofQueue, NotDeleted: ofQueue,
	}).hooks()
	for name, hook := range map[string]struct {
		call func()
		want any
	}{
		"SessionOpened": {func() { h.SessionOpened(1, "zk1", 2) }, SessionEvent{Session: 1, Server: "zk1", Timeout: 2}},
		"SessionEnded":  {func() { h.SessionEnded(1, why) }, SessionEvent{Session: 1, Err: why}},
		"Unguarded":     {func() { h.Unguarded(1, why) }, SessionEvent{Session: 1, Err: why}},
		"Attached":      {func() { h.Attached(1, "zk1") }, SessionEvent{Session: 1, Server: "zk1"}},
		"Detached":      {func() { h.Detached(1, "zk1") }, SessionEvent{Session: 1, Server: "zk1"}},
		"Outage":        {func() { h.Outage(2, why) }, SessionEvent{Lasted: 2, Err: why}},
		"Heartbeat":     {func() { h.Heartbeat(2, why) }, SessionEvent{RoundTrip: 2, Err: why}},
		"Proved":        {func() { h.Proved(1, 2) }, SessionEvent{Left: 1, Timeout: 2}},
		"Joined":        {func() { h.Joined("/q", "/q/n", 3) }, QueueEvent{Path: "/q", Node: "/q/n", Contenders: 3}},
		"Waiting":       {func() { h.Waiting("/q", "/q/n", "a") }, QueueEvent{Path: "/q", Node: "/q/n", Ahead: "a"}},
		"Granted":       {func() { h.Granted(call, "/q", "/q/n", 4, 5) }, QueueEvent{Path: "/q", Node: "/q/n", Token: 4, Waited: 5, Context: ctx, Time: now}},
		"HandedOver":    {func() { h.HandedOver("/q", "/q/n", 1) }, QueueEvent{Path: "/q", Node: "/q/n", Listings: 1}},
		"Unreleased": {
			func() { h.Unreleased("/q", report.Former{Owner: "a"}, 5) },
			QueueEvent{Path: "/q", Former: FormerHolder{Owner: "a"}, Delay: 5},
		},
		"Failed": {func() { h.Failed(call, "/q", 5, why) }, QueueEvent{Path: "/q", Waited: 5, Err: why, Context: ctx, Time: now}},
		"Ended": {
			func() { h.Ended(call, "/q", "/q/n", 4, 5*time.Second, why) },
			QueueEvent{Path: "/q", Node: "/q/n", Token: 4, Held: 5 * time.Second, Err: why, Context: ctx, Time: now},
		},
		"Lost":       {func() { h.Lost("/q", "/q/n", why) }, QueueEvent{Path: "/q", Node: "/q/n", Err: why}},
		"Released":   {func() { h.Released("/q", "/q/n", why) }, QueueEvent{Path: "/q", Node: "/q/n", Err: why}},
		"Rejoined":   {func() { h.Rejoined("/q", why) }, QueueEvent{Path: "/q", Err: why}},
		"Recovered":  {func() { h.Recovered("/q", true, why) }, QueueEvent{Path: "/q", Found: true, Err: why}},
		"Expired":    {func() { h.Expired("/q/n") }, QueueEvent{Node: "/q/n"}},
		"NotDeleted": {func() { h.NotDeleted("/q/n", why) }, QueueEvent{Node: "/q/n", Err: why}},
	} {
		got = nil
		hook.call()
		require.Equal(t, hook.want, got, name)
	}
	require.Zero(t, (*Trace)(nil).hooks())
	require.Zero(t, (&Trace{}).hooks())
}

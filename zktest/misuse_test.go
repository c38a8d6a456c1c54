// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// A fakeTB is a zktest.TB that records its calls.
type fakeTB struct {
	logs, errors, fatals []string
	cleanups             []func()
}

func (f *fakeTB) Helper()                   {}
func (f *fakeTB) Cleanup(c func())          { f.cleanups = append(f.cleanups, c) }
func (f *fakeTB) Logf(s string, a ...any)   { f.logs = append(f.logs, fmt.Sprintf(s, a...)) }
func (f *fakeTB) Errorf(s string, a ...any) { f.errors = append(f.errors, fmt.Sprintf(s, a...)) }
func (f *fakeTB) Fatalf(s string, a ...any) { f.fatals = append(f.fatals, fmt.Sprintf(s, a...)) }

// end runs the cleanups, last one first.
func (f *fakeTB) end() {
	for i := len(f.cleanups) - 1; i >= 0; i-- {
		f.cleanups[i]()
	}
}

func TestInvalidOptionErrorNamesValue(t *testing.T) {
	for _, wrong := range []struct {
		opts zktest.Options
		says string
	}{
		{zktest.Options{Servers: -1}, "-1 servers"},
		{zktest.Options{Servers: 8}, "8 servers"},
		{zktest.Options{Tick: -time.Second}, "tick -1s"},
		{zktest.Options{Tick: time.Microsecond}, "tick 1µs"},
		{zktest.Options{SyncLimit: -1}, "sync limit -1"},
		{zktest.Options{ElectionTime: -1}, "election time -1ns"},
		{zktest.Options{ContainerInterval: -1}, "container interval -1ns"},
		{zktest.Options{HandshakeTimeout: -1}, "handshake timeout -1ns"},
		{zktest.Options{MaxPacket: 10}, "packet limit 10"},
		{zktest.Options{RequireSASL: true}, "SASL is required, and there are no users"},
		{zktest.Options{Personality: 2}, "personality 2 is unknown"},
		{zktest.Options{TLS: &tls.Config{}}, "TLS has no certificate"},
		{zktest.Options{Addr: "localhost"}, `"localhost"`},
		{zktest.Options{Addr: "127.0.0.1:99999"}, `"127.0.0.1:99999"`},
	} {
		_, err := zktest.Run(t.Context(), &wrong.opts)
		require.ErrorContains(t, err, wrong.says)
		tb := &fakeTB{}
		zktest.Start(tb, &wrong.opts)
		require.Len(t, tb.fatals, 1)
		require.Contains(t, tb.fatals[0], wrong.says)
	}
}

func TestTakenPortErrorNamesPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	_, err = zktest.Run(t.Context(), &zktest.Options{Addr: taken.Addr().String()})
	require.ErrorContains(t, err, taken.Addr().String())
}

func TestInvalidFaultArgumentEndsTest(t *testing.T) {
	tb := &fakeTB{}
	e := zktest.Start(tb, &zktest.Options{InMemory: true})
	defer tb.end()
	e.LoseRequest(0)
	e.Link().LoseReply(-3)
	e.Server(1).Delay(-time.Second)
	e.Server(1).Lag(-time.Second)
	e.Link().Delay(-time.Minute)
	e.Server(2)
	require.Len(t, tb.fatals, 6)
	for i, says := range []string{"frame 0", "frame -3", "-1s", "-1s", "-1m", "server 2"} {
		require.Contains(t, tb.fatals[i], says)
	}
	require.Panics(t, func() {
		e, err := zktest.Run(t.Context(), &zktest.Options{InMemory: true})
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close()) }()
		e.LoseRequest(0)
	}, "outside a test")
}

func TestInvalidFaultErrorShowsValidForm(t *testing.T) {
	e := zktest.Start(t, &zktest.Options{InMemory: true, Servers: 3})
	for text, says := range map[string]string{
		"":                  "lose-reply N",
		"explode":           "lose-reply N",
		"lose-request":      "lose-request N",
		"lose-request 0":    `number "0": must be 1 or more`,
		"lose-request x":    `number "x": must be 1 or more`,
		"kill 4":            `server "4": must be 1 to 3`,
		"kill 0":            `server "0": must be 1 to 3`,
		"kill 1 2":          "kill SERVER",
		"delay 1 -5ms":      `"-5ms"`,
		"hold 1 sideways":   "to-server, to-client or both",
		"expire 0x1":        "session does not exist",
		"expire x":          `session "x"`,
		"delete /none":      "delete /none: node does not exist",
		"set-counter /no 1": "set counter /no: node does not exist",
	} {
		require.ErrorContains(t, e.Apply(text), says, text)
	}
	for _, text := range []string{
		"kill 2", "start 2", "start 2", "delay 2 5ms", "hold 3 both", "release 3", "lag 2 1s", "lag 2 0s", "hang 2", "answer 2",
		"refuse 3", "accept 3", "isolate 3", "heal 3", "check-containers", "isolate-leader", "heal 1", "partition 2", "heal 2",
		"pause 1", "unpause 1", "lose-reply 7", "lose-request 9",
	} {
		require.NoError(t, e.Apply(text), text)
	}
}

func TestOpenConnectionIsClosedAndReportedAtTestEnd(t *testing.T) {
	tb := &fakeTB{}
	e := zktest.Start(tb, &zktest.Options{})
	c := dialRaw(t, e)
	newSession(t, c)
	tb.end()
	require.Contains(t, strings.Join(tb.logs, "\n"), "still connected at the end of the test")
	require.Empty(t, tb.errors)
	_, err := c.Frame(maxWait)
	require.Error(t, err)
	_, err = net.Dial("tcp", e.Addrs()[0])
	require.Error(t, err, "no server listens")
	require.NoError(t, e.Close(), "closed again")
}

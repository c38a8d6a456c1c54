// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"bytes"
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

const small = `{"at":"0s","kind":"run","timeout":"4s","tick":"500ms","text":"seed 7"}
{"at":"10ms","kind":"asked","contender":"a","attempt":1,"path":"/l","text":"lock"}
{"at":"12ms","kind":"created","node":"/l/3-lock-0000000000","session":"0x1","zxid":"0x4"}
{"at":"14ms","kind":"granted","contender":"a","attempt":1,"path":"/l","node":"/l/3-lock-0000000000","session":"0x1","token":"0x4"}
{"at":"15ms","kind":"wrote","contender":"a","attempt":1,"path":"/l","token":"0x4","fenced":true,"accepted":true}
{"at":"20ms","kind":"told","contender":"a","attempt":1,"path":"/l","cause":"released"}
{"at":"22ms","kind":"deleted","node":"/l/3-lock-0000000000","session":"0x8100000000000001","zxid":"0x5","cause":"request"}
{"at":"9s","kind":"end"}
`

func TestHistoryReadsAndWritesTheSameBytes(t *testing.T) {
	events, err := history.Read(strings.NewReader(small))
	require.NoError(t, err)
	require.Len(t, events, 8)
	require.Equal(t, history.Instant(14*time.Millisecond), events[3].At)
	require.Equal(t, history.ID(4), events[3].Token)
	require.Negative(t, events[6].Session, "as session ids of servers from 128 on are")
	require.Equal(t, 8, events[7].Line)
	var out bytes.Buffer
	require.NoError(t, history.Write(&out, events))
	require.Equal(t, small, out.String())
}

func TestInvalidLineIsReportedByItsNumber(t *testing.T) {
	for _, broken := range []struct{ line, want string }{
		{`{"at":"1s","kind":"granted","contender":"a","attempt":1,"path":"/l"}`, "granted without [token]"},
		{`{"at":"1s","kind":"asked"}`, "asked without [contender attempt path]"},
		{`{"at":"1s","kind":"danced"}`, `unknown kind "danced"`},
		{`{"at":"1s","kind":"end","mood":"good"}`, "mood"},
		{`{"at":"soon","kind":"end"}`, "soon"},
		{`{"at":"1s","kind":"ended","session":"one","cause":"timeout"}`, "one"},
		{`{"at":"1s","kind":"end"}{"at":"1s","kind":"end"}`, "more than one"},
		{`grant a`, "invalid character"},
	} {
		_, err := history.Read(strings.NewReader(small + "\n" + broken.line + "\n"))
		require.ErrorContains(t, err, "line 10: ", broken.line)
		require.ErrorContains(t, err, broken.want)
	}
}

func TestRecorderNumbersEventsAndAttempts(t *testing.T) {
	r := history.NewRecorder()
	require.Equal(t, 1, r.NextAttempt())
	require.Equal(t, 2, r.NextAttempt())
	r.Add(history.Event{Kind: history.Note, Text: "now"})
	r.AddAt(time.Now().Add(-time.Hour), history.Event{Kind: history.Note, Text: "then"})
	events := r.Events()
	require.Len(t, events, 2)
	require.Equal(t, 1, events[0].Line)
	require.Equal(t, 2, events[1].Line)
	require.GreaterOrEqual(t, events[0].At, history.Instant(0))
	require.Less(t, events[1].At, history.Instant(0))
	r.Add(history.Event{Kind: history.End})
	require.Len(t, events, 2, "a returned slice does not grow")
}

func TestEventPrintsItsLineAndFields(t *testing.T) {
	events, err := history.Read(strings.NewReader(small))
	require.NoError(t, err)
	require.Equal(t, "line 4: 14ms granted a attempt 1 /l/3-lock-0000000000 session 0x1 token 0x4", events[3].String())
	require.Equal(t, "line 7: 22ms deleted /l/3-lock-0000000000 session 0x8100000000000001 zxid 0x5 request", events[6].String())
}

func TestWriteOfNodeBesidePathIsAnEvent(t *testing.T) {
	for node, want := range map[string]struct {
		data string
		e    history.Event
	}{
		"/l-limit":    {`{"format":1,"limit":3}`, history.Event{Kind: history.Limited, Limit: 3}},
		"/l-last":     {`{"activation":"2026-11-22T18:00:01+01:00","token":"7"}`, history.Event{Kind: history.Stored, Token: 7, Text: "2026-11-22T17:00:01Z"}},
		"/l-value":    {`{"token":"7","value":"161","draining":true}`, history.Event{Kind: history.Proclaimed, Token: 7, Write: 161, Text: "draining"}},
		"/l-handover": {`{"token":"7","target":"n","owner":"x"}`, history.Event{Kind: history.HandedOver, Token: 7, Text: "n"}},
		"/l/assigned/a": {
			`{"token":"7","partitions":["p","q"],"weight":1}`,
			history.Event{Kind: history.Assigned, Path: "/l/leader", Token: 7, Text: "p q"},
		},
	} {
		want.e.Node, want.e.Path = node, cmp.Or(want.e.Path, "/l")
		got, ok, err := history.Written(history.Event{Node: node}, []byte(want.data))
		require.NoError(t, err)
		require.True(t, ok, node)
		require.Equal(t, want.e, got)
		for _, data := range []string{"", "{}"} {
			_, ok, err = history.Written(history.Event{Node: node}, []byte(data))
			require.NoError(t, err)
			require.False(t, ok, "%s: %q", node, data)
		}
		_, _, err = history.Written(history.Event{Node: node}, []byte("no node"))
		require.ErrorContains(t, err, node+": unknown format")
	}
	_, ok, err := history.Written(history.Event{Node: "/l-priority"}, []byte("{}"))
	require.NoError(t, err)
	require.False(t, ok)
}

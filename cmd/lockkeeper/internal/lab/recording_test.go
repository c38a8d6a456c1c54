// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the recordings of the presets")

// seeds are those that are recorded.
var seeds = []uint64{1, 2, 3}

// record runs a preset in fake time.
func record(t *testing.T, p *Preset, seed uint64) *Recording {
	t.Helper()
	r := &Recording{Preset: p.Name, Seed: seed}
	inBubble(t, func(t *testing.T, l *Lab, on *player) {
		require.NoError(t, l.play(on.ctx, p, seed))
		r.Events = l.events()
	})
	return r
}

// eachRecording runs a test on a new run of a preset with each seed.
func eachRecording(t *testing.T, preset string, f func(t *testing.T, events []Event, role []string)) {
	t.Helper()
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			events := record(t, find(preset), seed).Events
			var role []string // the order in which they join
			for _, e := range events {
				if name, _, joined := strings.Cut(e.Text, " joins the queue"); joined && !slices.Contains(role, name) {
					role = append(role, name)
				}
			}
			require.Len(t, role, 3)
			f(t, events, role)
		})
	}
}

// Which server a contender finds after it has left one is not the same in each run, and neither are delays of a redial.
func TestRecordingsAreWhatPresetsDo(t *testing.T) {
	for _, p := range presets {
		for _, seed := range seeds {
			t.Run(fmt.Sprintf("%s %d", p.Name, seed), func(t *testing.T) {
				fresh := record(t, p, seed)
				if *update {
					require.NoError(t, os.WriteFile(recordingFile(p.Name, seed), fresh.encode(t), 0o644))
				}
				content, err := os.ReadFile(recordingFile(p.Name, seed))
				require.NoError(t, err)
				recorded := &Recording{}
				require.NoError(t, json.Unmarshal(content, recorded))
				requireSameEvents(t, recorded.Events, fresh.Events)
			})
		}
	}
}

// encode returns the recording with a row for each event.
func (r *Recording) encode(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\"preset\": %q, \"seed\": %d, \"events\": [\n", r.Preset, r.Seed)
	for i, e := range r.Events {
		row, err := json.Marshal(e)
		require.NoError(t, err)
		b.Write(row)
		if i < len(r.Events)-1 {
			b.WriteString(",")
		}
		b.WriteString("\n")
	}
	b.WriteString("]}\n")
	return b.Bytes()
}

var numbers = regexp.MustCompile(`server \d|token \d+|than \d+`)

// requireSameEvents requires that each component does the same in the same order, at about the same time.
func requireSameEvents(t *testing.T, recorded, fresh []Event) {
	t.Helper()
	const jitter = 700 // ms
	for _, who := range append([]string{"zookeeper", fenced, bare, "preset"}, names...) {
		eventsOf := func(events []Event) (rows []string, at []int64) {
			for _, e := range events {
				if e.Who == who && e.Text != "" {
					rows, at = append(rows, e.Kind+" "+numbers.ReplaceAllString(e.Text, "#")), append(at, e.At)
				}
			}
			for len(rows) > 0 && strings.HasPrefix(rows[len(rows)-1], kindWrite) {
				rows = rows[:len(rows)-1] // the end of the run depends on the last delay
			}
			return rows, at
		}
		wanted, wantedAt := eventsOf(recorded)
		got, gotAt := eventsOf(fresh)
		require.Equal(t, wanted, got, "%s: if this change is intended: go test ./internal/lab -run Recordings -update", who)
		for i := range wanted {
			require.InDelta(t, wantedAt[i], gotAt[i], jitter, "%s %s", who, got[i])
		}
	}
}

// index returns the index of the first event with this source and kind from index i on.
func index(t *testing.T, events []Event, i int, who, kind string) int {
	t.Helper()
	n := slices.IndexFunc(events[i:], func(e Event) bool { return e.Who == who && e.Kind == kind })
	require.NotEqual(t, -1, n, "%s has no event %s from %d on", who, kind, i)
	return i + n
}

// kinds returns how many events have a kind.
func kinds(events []Event, kind string) (n int) {
	for _, e := range events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func TestStaleWriteOfPausedLeaderIsRejectedByFencedRegisterOnly(t *testing.T) {
	eachRecording(t, "paused-leader", func(t *testing.T, events []Event, role []string) {
		t.Helper()
		granted := index(t, events, 0, role[1], kindGrant)
		require.Less(t, index(t, events, 0, role[0], kindFault), granted, "it is paused first")
		rejected := index(t, events, granted, fenced, kindRejected)
		require.Contains(t, events[rejected].Text, "of "+role[0])
		stale := index(t, events, granted, bare, kindStale)
		require.Equal(t, role[0], events[stale].State["bare.writer"])
		require.Equal(t, 1, kinds(events, kindRejected))
		require.Equal(t, 1, kinds(events, kindStale))
		for _, e := range events[index(t, events, 0, role[0], kindFault)+1 : index(t, events, granted, role[0], kindAct)] {
			require.NotEqual(t, role[0], e.Who, "nothing comes from a paused contender: %s", e.Text)
			require.NotContains(t, e.Text, "of "+role[0]+" with")
		}
	})
}

func TestPartitionedLeaderIsNotifiedBeforeNextGrant(t *testing.T) {
	eachRecording(t, "partitioned-leader", func(t *testing.T, events []Event, role []string) {
		t.Helper()
		notified := index(t, events, 0, role[0], kindLoss)
		require.Less(t, notified, index(t, events, 0, role[1], kindGrant))
		require.Zero(t, kinds(events, kindStale)+kinds(events, kindRejected))
	})
}

func TestContenderBehindOneThatLeavesWatchesTheHolder(t *testing.T) {
	eachRecording(t, "predecessor-leaves", func(t *testing.T, events []Event, role []string) {
		t.Helper()
		left := slices.IndexFunc(events, func(e Event) bool { return e.Who == role[1] && e.Text == "has left the queue" })
		require.NotEqual(t, -1, left)
		woken := index(t, events, left, role[2], kindInfo)
		require.Equal(t, role[0], events[woken].State[role[2]+".ahead"])
		granted := index(t, events, woken, role[2], kindGrant)
		released := slices.IndexFunc(events, func(e Event) bool { return e.Who == role[0] && e.Text == "has released the lock" })
		require.Less(t, released, granted)
		require.Positive(t, released)
	})
}

func TestHolderAtFollowerWithoutLeaderMovesAndKeepsTheLock(t *testing.T) {
	eachRecording(t, "follower-without-leader", func(t *testing.T, events []Event, role []string) {
		t.Helper()
		cut := slices.IndexFunc(events, func(e Event) bool { return e.State["isolated"] == 2 })
		require.Positive(t, cut)
		moved := slices.IndexFunc(events, func(e Event) bool {
			return e.Who == role[0] && strings.HasPrefix(e.Text, "continues its session at server")
		})
		require.Greater(t, moved, cut)
		require.Less(t, time.Duration(events[moved].At-events[cut].At)*time.Millisecond, timeout, "before the session could expire")
		require.Zero(t, kinds(events, kindLoss))
		require.Equal(t, 1, kinds(events, kindGrant))
		require.Zero(t, kinds(events, kindStale)+kinds(events, kindRejected))
	})
}

func TestSeedDecidesRolesAndTimes(t *testing.T) {
	var first []string
	for _, seed := range seeds {
		text := string(record(t, find("predecessor-leaves"), seed).encode(t))
		require.NotContains(t, first, text)
		first = append(first, text)
	}
}

func TestMissingRecordingIsReportedWithThoseThatExist(t *testing.T) {
	_, err := recordingOf("follower-with-leader", "1")
	require.EqualError(t, err, `preset "follower-with-leader" does not exist: must be one of paused-leader, partitioned-leader, predecessor-leaves, follower-without-leader`)
	for _, seed := range []string{"99", "", "one", "-1"} {
		_, err = recordingOf("paused-leader", seed)
		require.EqualError(t, err, fmt.Sprintf("preset paused-leader was not recorded with seed %q: recorded are 1, 2, 3", seed))
	}
	for _, p := range presets {
		require.Equal(t, seeds, seedsOf(p.Name))
	}
}

func TestPageOfTheCommandHasEachPreset(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/command-line.md")
	require.NoError(t, err)
	for _, p := range presets {
		require.Contains(t, string(text), "| `"+p.Name+"` |")
	}
}

var anchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

func TestEachPresetLinksToHeadingOfDocs(t *testing.T) {
	for _, p := range presets {
		file, want, _ := strings.Cut(strings.TrimPrefix(p.Link, docs), "#")
		text, err := os.ReadFile("../../../../docs/" + file)
		require.NoError(t, err)
		var headings []string
		for line := range strings.Lines(string(text)) {
			if title := strings.TrimLeft(line, "#"); title != line {
				title = anchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
				headings = append(headings, strings.ReplaceAll(title, " ", "-"))
			}
		}
		require.Contains(t, headings, want, p.Name)
	}
}

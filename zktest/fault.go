// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CutBefore sets a trap for the n-th frame from now on that a client sends to any of
// the servers, handshakes included; 1 is the next. The frame is not carried out: its
// connection ends instead, as when a request is lost. n below 1 ends the test, or panics
// outside tests.
func (e *Ensemble) CutBefore(n int) *Trap { return e.trap(&e.traps, n, false) }

// CutAfter sets a trap for the n-th frame from now on. The frame is carried out, and its
// connection ends before the server sends anything that the frame caused, as when a
// reply is lost.
func (e *Ensemble) CutAfter(n int) *Trap { return e.trap(&e.traps, n, true) }

func (e *Ensemble) trap(set *traps, n int, after bool) *Trap {
	if n < 1 {
		e.fatal("cut at frame %d: must be 1 or more: the next frame is 1", n)
		return &Trap{}
	}
	e.mu.Lock()
	defer e.unlock()
	return set.add(n, after)
}

// A fault is a fault that Apply injects by its name.
type fault struct {
	args []string // the kinds of its arguments
	do   func(e *Ensemble, args faultArgs) error
}

// faults are all faults, by name.
var faults = map[string]fault{
	"expire":          {[]string{"SESSION"}, func(e *Ensemble, a faultArgs) error { return e.Expire(a.session()) }},
	"cut-before":      {[]string{"N"}, func(e *Ensemble, a faultArgs) error { e.CutBefore(a.positive(0)); return nil }},
	"cut-after":       {[]string{"N"}, func(e *Ensemble, a faultArgs) error { e.CutAfter(a.positive(0)); return nil }},
	"stop":            {[]string{"SERVER"}, func(e *Ensemble, a faultArgs) error { a.server().Stop(); return nil }},
	"start":           {[]string{"SERVER"}, func(e *Ensemble, a faultArgs) error { return a.server().Start() }},
	"wipe":            {[]string{"SERVER"}, func(e *Ensemble, a faultArgs) error { return a.server().Wipe() }},
	"refuse":          {[]string{"SERVER"}, func(e *Ensemble, a faultArgs) error { a.server().Refuse(true); return nil }},
	"accept":          {[]string{"SERVER"}, func(e *Ensemble, a faultArgs) error { a.server().Refuse(false); return nil }},
	"mute":            {[]string{"SERVER"}, func(e *Ensemble, a faultArgs) error { a.server().Mute(true); return nil }},
	"unmute":          {[]string{"SERVER"}, func(e *Ensemble, a faultArgs) error { a.server().Mute(false); return nil }},
	"hold":            {[]string{"SERVER", "DIRECTION"}, func(e *Ensemble, a faultArgs) error { a.server().Hold(a.direction(1)); return nil }},
	"release":         {[]string{"SERVER"}, func(e *Ensemble, a faultArgs) error { a.server().Release(); return nil }},
	"delay":           {[]string{"SERVER", "DURATION"}, func(e *Ensemble, a faultArgs) error { a.server().Delay(a.duration(1)); return nil }},
	"lag":             {[]string{"SERVER", "DURATION"}, func(e *Ensemble, a faultArgs) error { a.server().Lag(a.duration(1)); return nil }},
	"cut-from-leader": {[]string{"SERVER"}, func(e *Ensemble, a faultArgs) error { return a.server().CutFromLeader() }},
	"mend":            {[]string{"SERVER"}, func(e *Ensemble, a faultArgs) error { return a.server().Mend() }},
	"depose":          {nil, func(e *Ensemble, a faultArgs) error { _, err := e.Depose(); return err }},
	"delete":          {[]string{"PATH"}, func(e *Ensemble, a faultArgs) error { return e.Delete(a.words[0]) }},
	"plant-counter":   {[]string{"PATH", "N"}, func(e *Ensemble, a faultArgs) error { return e.PlantCounter(a.words[0], a.int32(1)) }},
	"reap":            {nil, func(e *Ensemble, a faultArgs) error { e.Reap(); return nil }},
}

// Faults lists the faults that Apply knows, with their arguments: "hold SERVER
// DIRECTION", for instance. A server is its number, and a direction is to-server,
// to-client or both.
func Faults() []string {
	all := make([]string, 0, len(faults))
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		all = append(all, strings.Join(append([]string{name}, faults[name].args...), " "))
	}
	return all
}

// Apply injects a fault by its name: "stop 1", or "cut-after 3". Fault plans in files
// use this form. The error for an unknown fault lists the known ones, and the error for
// invalid arguments shows valid ones.
func (e *Ensemble) Apply(text string) error {
	words := strings.Fields(text)
	if len(words) == 0 {
		return fmt.Errorf("zktest: fault %q: empty: must be one of %s", text, strings.Join(Faults(), ", "))
	}
	f, known := faults[words[0]]
	switch {
	case !known:
		return fmt.Errorf("zktest: fault %q: unknown: must be one of %s", words[0], strings.Join(Faults(), ", "))
	case len(words)-1 != len(f.args):
		return fmt.Errorf("zktest: fault %q: must have the form %q", text, strings.Join(append(words[:1:1], f.args...), " "))
	}
	args := faultArgs{ensemble: e, words: words[1:]}
	for i, kind := range f.args {
		if err := args.check(i, kind); err != nil {
			return fmt.Errorf("zktest: fault %q: %w", text, err)
		}
	}
	return f.do(e, args)
}

// faultArgs are the words after a fault's name. Apply checks them before it uses them.
type faultArgs struct {
	ensemble *Ensemble
	words    []string
}

func (a faultArgs) check(i int, kind string) error {
	word := a.words[i]
	switch kind {
	case "SESSION":
		if _, err := strconv.ParseUint(word, 0, 64); err != nil {
			return fmt.Errorf("session %q: must be a number", word)
		}
	case "SERVER":
		if n, err := strconv.Atoi(word); err != nil || n < 0 || n >= len(a.ensemble.servers) {
			return fmt.Errorf("server %q: must be 0 to %d", word, len(a.ensemble.servers)-1)
		}
	case "N":
		if n, err := strconv.ParseInt(word, 10, 32); err != nil || n < 1 {
			return fmt.Errorf("number %q: must be 1 or more", word)
		}
	case "DURATION":
		if d, err := time.ParseDuration(word); err != nil || d < 0 {
			return fmt.Errorf("duration %q: must be a duration such as 50ms, not negative", word)
		}
	case "DIRECTION":
		if a.direction(i) == 0 {
			return fmt.Errorf("direction %q: must be %v, %v or %v", word, ToServer, ToClient, Both)
		}
	}
	return nil
}

func (a faultArgs) session() int64 {
	n, _ := strconv.ParseUint(a.words[0], 0, 64)
	return int64(n) //nolint:gosec // ids of sessions are printed without their sign
}

func (a faultArgs) int32(i int) int32 {
	n, _ := strconv.ParseInt(a.words[i], 10, 32)
	return int32(n) //nolint:gosec // parsed as such
}

func (a faultArgs) positive(i int) int { return int(a.int32(i)) }

// server returns the server that the first word names.
func (a faultArgs) server() *Server {
	n, _ := strconv.Atoi(a.words[0])
	return a.ensemble.servers[n]
}

func (a faultArgs) duration(i int) time.Duration {
	d, _ := time.ParseDuration(a.words[i])
	return d
}

func (a faultArgs) direction(i int) Direction {
	for _, d := range []Direction{ToServer, ToClient, Both} {
		if a.words[i] == d.String() {
			return d
		}
	}
	return 0
}

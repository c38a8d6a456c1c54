// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// LoseRequest sets a trap for the n-th frame from now on that a client sends to any of the
// servers, handshakes included; 1 is the next. The frame is not carried out: its connection
// ends instead, as when a request is lost. n below 1 ends the test, or panics outside
// tests.
func (e *Ensemble) LoseRequest(n int) *Trap { return e.trap(&e.traps, n, false) }

// LoseReply sets a trap for the n-th frame from now on. The frame is carried out, and its
// connection ends before the server sends anything that the frame caused, as when a reply
// is lost.
func (e *Ensemble) LoseReply(n int) *Trap { return e.trap(&e.traps, n, true) }

func (e *Ensemble) trap(set *traps, n int, after bool) *Trap {
	if n < 1 {
		e.fatal("lose frame %d: must be 1 or more: the next frame is 1", n)
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

// onServer returns a fault of a server.
func onServer(do func(*Server, context.Context) error) fault {
	return fault{[]string{"SERVER"}, func(_ *Ensemble, a faultArgs) error { return do(a.server(), context.Background()) }}
}

// faults are all faults, by name.
var faults = map[string]fault{
	"kill":      onServer((*Server).Kill),
	"start":     onServer((*Server).Start),
	"pause":     onServer((*Server).Pause),
	"unpause":   onServer((*Server).Unpause),
	"isolate":   onServer((*Server).Isolate),
	"partition": onServer((*Server).Partition),
	"heal":      onServer((*Server).Heal),

	"wipe":    {[]string{"SERVER"}, func(_ *Ensemble, a faultArgs) error { return a.server().Wipe() }},
	"refuse":  {[]string{"SERVER"}, func(_ *Ensemble, a faultArgs) error { a.server().Refuse(true); return nil }},
	"accept":  {[]string{"SERVER"}, func(_ *Ensemble, a faultArgs) error { a.server().Refuse(false); return nil }},
	"hang":    {[]string{"SERVER"}, func(_ *Ensemble, a faultArgs) error { a.server().Hang(true); return nil }},
	"answer":  {[]string{"SERVER"}, func(_ *Ensemble, a faultArgs) error { a.server().Hang(false); return nil }},
	"hold":    {[]string{"SERVER", "DIRECTION"}, func(_ *Ensemble, a faultArgs) error { a.server().Hold(a.direction(1)); return nil }},
	"release": {[]string{"SERVER"}, func(_ *Ensemble, a faultArgs) error { a.server().Release(); return nil }},
	"delay":   {[]string{"SERVER", "DURATION"}, func(_ *Ensemble, a faultArgs) error { a.server().Delay(a.duration(1)); return nil }},
	"lag":     {[]string{"SERVER", "DURATION"}, func(_ *Ensemble, a faultArgs) error { a.server().Lag(a.duration(1)); return nil }},

	"isolate-leader":   {nil, func(e *Ensemble, _ faultArgs) error { return e.isolateLeader() }},
	"expire":           {[]string{"SESSION"}, func(e *Ensemble, a faultArgs) error { return e.Expire(context.Background(), a.session()) }},
	"lose-request":     {[]string{"N"}, func(e *Ensemble, a faultArgs) error { e.LoseRequest(a.positive(0)); return nil }},
	"lose-reply":       {[]string{"N"}, func(e *Ensemble, a faultArgs) error { e.LoseReply(a.positive(0)); return nil }},
	"delete":           {[]string{"PATH"}, func(e *Ensemble, a faultArgs) error { return e.Delete(a.words[0]) }},
	"set-counter":      {[]string{"PATH", "N"}, func(e *Ensemble, a faultArgs) error { return e.SetCounter(a.words[0], a.int32(1)) }},
	"check-containers": {nil, func(e *Ensemble, _ faultArgs) error { e.CheckContainers(); return nil }},
}

// isolateLeader isolates the present leader.
func (e *Ensemble) isolateLeader() error {
	e.mu.Lock()
	leader := e.leader
	e.unlock()
	if leader == nil {
		return errors.New("zktest: isolate the leader: no server leads")
	}
	return leader.Isolate(context.Background())
}

// Faults lists the faults that Apply knows, with their arguments: "hold SERVER
// DIRECTION", for instance. A server is its id, and a direction is to-server,
// to-client or both.
func Faults() []string {
	all := make([]string, 0, len(faults))
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		all = append(all, strings.Join(append([]string{name}, faults[name].args...), " "))
	}
	return all
}

// Apply injects a fault by its name: "kill 1", or "lose-reply 3". Fault plans in files
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
		if n, err := strconv.Atoi(word); err != nil || n < 1 || n > len(a.ensemble.servers) {
			return fmt.Errorf("server %q: must be 1 to %d", word, len(a.ensemble.servers))
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
	return a.ensemble.servers[n-1]
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

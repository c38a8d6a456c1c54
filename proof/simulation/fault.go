// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// processFaults contains the faults of one process, by name.
var processFaults = map[string]func(p *Process, arg string) error{
	"pause":      func(p *Process, _ string) error { p.pause(); return nil },
	"wake":       func(p *Process, _ string) error { p.wake(); return nil },
	"crash":      func(p *Process, _ string) error { p.crash(true); return nil },
	"vanish":     func(p *Process, _ string) error { p.crash(false); return nil },
	"cut":        func(p *Process, _ string) error { p.link.Reset(); return nil },
	"refuse":     func(p *Process, _ string) error { p.link.Refuse(true); return nil },
	"accept":     func(p *Process, _ string) error { p.link.Refuse(false); return nil },
	"hold":       func(p *Process, d string) error { return p.silenceBy(d) },
	"release":    func(p *Process, _ string) error { p.endSilence(); return nil },
	"delay":      (*Process).delayBy,
	"cut-before": func(p *Process, n string) error { return loseFrame(n, p.link.LoseRequest) },
	"cut-after":  func(p *Process, n string) error { return loseFrame(n, p.link.LoseReply) },
	"expire":     func(p *Process, _ string) error { return p.world.expire(p.client.SessionID()) },
	"delete":     (*Process).deleteNode,

	"delete-crowd": (*Process).deleteCrowd,

	"refuse-watches": (*Process).refuseWatches,
	"cut-watches":    (*Process).cutWatches,

	"replace": func(p *Process, _ string) error { p.replace(); return nil },
	"revoke":  func(p *Process, path string) error { p.world.calling.Go(func() { p.force(path) }); return nil },
}

// inject injects a fault, in the text form of a plan, into the process. It does nothing to a crashed process.
func (p *Process) inject(text string) error {
	verb, arg, _ := strings.Cut(text, " ")
	f, known := processFaults[verb]
	if !known {
		return fmt.Errorf("inject %q: unknown fault of a process", text)
	}
	if p.crashed() {
		return nil
	}
	p.world.fault("%s %s", p.name, text)
	return f(p, arg)
}

func (p *Process) silenceBy(direction string) error {
	for _, d := range []zktest.Direction{zktest.ToServer, zktest.ToClient, zktest.Both} {
		if d.String() == direction {
			p.silence(d)
			return nil
		}
	}
	return fmt.Errorf("hold %s: unknown direction", direction)
}

func (p *Process) delayBy(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("delay: %w", err)
	}
	p.link.Delay(p.latency + d)
	return nil
}

func loseFrame(n string, lose func(int) *zktest.Trap) error {
	frame, err := strconv.Atoi(n)
	if err != nil || frame < 1 {
		return fmt.Errorf("lose frame %q: want a number, 1 or more", n)
	}
	lose(frame)
	return nil
}

// deleteNode has an operator delete the process's node below a path.
func (p *Process) deleteNode(path string) error {
	node, found := p.nodeOf(path)
	if !found {
		return nil
	}
	return p.world.ensemble.Delete(node)
}

// inject injects a fault, in the text form of a plan, into the ensemble.
func (w *World) inject(text string) error {
	w.fault("%s", text)
	verb, arg, _ := strings.Cut(text, " ")
	switch verb {
	case "delete-line":
		return w.deleteQueue(arg)
	case "join-foreign":
		return w.ensemble.Create(arg+"/another-lock-0000000999", nil)
	case "supersede":
		return w.supersede(arg)
	case "forget":
		return w.forget(arg)
	case "slow":
		return w.slow(arg)
	}
	return w.ensemble.Apply(zktestFault(text))
}

// slow delays answers.
func (w *World) slow(text string) error {
	var r zktest.Rule
	var delay string
	if _, err := fmt.Sscanf(text, "%s %s %d %s", &r.Op, &r.Below, &r.Times, &delay); err != nil {
		return fmt.Errorf("slow %s: want an operation, a path, a number and a duration: %w", text, err)
	}
	d, err := time.ParseDuration(delay)
	if err != nil {
		return fmt.Errorf("slow: %w", err)
	}
	r.Delay = d
	w.until(w.ensemble.Intercept(r))
	return nil
}

// until keeps a rule until all faults are healed.
func (w *World) until(rule *zktest.Interceptor) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules = append(w.rules, rule)
}

// serverFaults maps the faults of a server in plans to zktest's.
var serverFaults = map[string]string{
	"stop": "kill", "start": "start", "wipe": "wipe", "cut-from-leader": "isolate", "mend": "heal", "refuse": "refuse", "accept": "accept",
	"mute": "hang", "unmute": "answer", "hold": "hold", "release": "release", "delay": "delay", "lag": "lag",
}

// treeFaults maps the other faults of the ensemble in plans to zktest's.
var treeFaults = map[string]string{"depose": "isolate-leader", "plant-counter": "set-counter", "reap": "check-containers"}

// zktestFault translates a fault of the ensemble from a plan. Kept histories contain plans, so plans keep their names and count
// servers from 0; zktest counts them from 1. An unknown fault is returned unchanged, and zktest refuses it.
func zktestFault(text string) string {
	verb, args, _ := strings.Cut(text, " ")
	if name, known := treeFaults[verb]; known {
		return strings.TrimSpace(name + " " + args)
	}
	name, known := serverFaults[verb]
	number, rest, _ := strings.Cut(args, " ")
	server, err := strconv.Atoi(number)
	if !known || err != nil {
		return text
	}
	return strings.TrimSpace(fmt.Sprintf("%s %d %s", name, server+1, rest))
}

// deleteQueue has an operator delete a queue's parent with everything below it.
func (w *World) deleteQueue(path string) error {
	names, err := w.ensemble.Children(path)
	if err != nil {
		return nil // it does not exist
	}
	for _, name := range names {
		err = errors.Join(err, w.ensemble.Delete(path+"/"+name))
	}
	// It is refused if a contender joined meanwhile.
	_ = w.ensemble.Delete(path)
	return err
}

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

// processFaults are what can be done to one process, by name.
var processFaults = map[string]func(p *Process, arg string) error{
	"pause":      func(p *Process, _ string) error { p.pause(); return nil },
	"wake":       func(p *Process, _ string) error { p.wake(); return nil },
	"crash":      func(p *Process, _ string) error { p.crash(true); return nil },
	"vanish":     func(p *Process, _ string) error { p.crash(false); return nil },
	"cut":        func(p *Process, _ string) error { p.link.Cut(); return nil },
	"refuse":     func(p *Process, _ string) error { p.link.Refuse(true); return nil },
	"accept":     func(p *Process, _ string) error { p.link.Refuse(false); return nil },
	"hold":       func(p *Process, d string) error { return p.holdBy(d) },
	"release":    func(p *Process, _ string) error { p.release(); return nil },
	"delay":      (*Process).delayBy,
	"cut-before": func(p *Process, n string) error { return p.cutAt(n, p.link.CutBefore) },
	"cut-after":  func(p *Process, n string) error { return p.cutAt(n, p.link.CutAfter) },
	"expire":     func(p *Process, _ string) error { return p.world.expire(p.client.SessionID()) },
	"delete":     (*Process).deleteNode,

	"delete-crowd": (*Process).deleteCrowd,
}

// harm does something to a process that is named in a text. Nothing can be done to one that has crashed.
func (p *Process) harm(what string) error {
	verb, arg, _ := strings.Cut(what, " ")
	f, known := processFaults[verb]
	if !known {
		return fmt.Errorf("simulation: unknown fault %q of a process", what)
	}
	if p.crashed() {
		return nil
	}
	p.world.fault("%s %s", p.name, what)
	return f(p, arg)
}

func (p *Process) holdBy(direction string) error {
	for _, d := range []zktest.Direction{zktest.ToServer, zktest.ToClient, zktest.Both} {
		if d.String() == direction {
			p.hold(d)
			return nil
		}
	}
	return fmt.Errorf("simulation: unknown direction %q", direction)
}

func (p *Process) delayBy(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("simulation: %w", err)
	}
	p.link.Delay(p.distance + d)
	return nil
}

func (p *Process) cutAt(n string, cut func(int) *zktest.Trap) error {
	frame, err := strconv.Atoi(n)
	if err != nil || frame < 1 {
		return fmt.Errorf("simulation: frame %q is not 1 or more", n)
	}
	cut(frame)
	return nil
}

// deleteNode deletes a node of the process's, by hand.
func (p *Process) deleteNode(path string) error {
	node, found := p.nodeOf(path)
	if !found {
		return nil
	}
	return p.world.ensemble.Delete(node)
}

// harm does something to the ensemble that is named in a text.
func (w *World) harm(what string) error {
	w.fault("%s", what)
	verb, arg, _ := strings.Cut(what, " ")
	switch verb {
	case "delete-line":
		return w.deleteLine(arg)
	case "supersede":
		return w.supersede(arg)
	case "forget":
		return w.forget(arg)
	}
	return w.ensemble.Apply(what)
}

// deleteLine deletes a line's parent with all that is below it, by hand.
func (w *World) deleteLine(path string) error {
	names, err := w.ensemble.Children(path)
	if err != nil {
		return nil // there is none
	}
	for _, name := range names {
		err = errors.Join(err, w.ensemble.Delete(path+"/"+name))
	}
	// Somebody may have joined meanwhile.
	_ = w.ensemble.Delete(path)
	return err
}

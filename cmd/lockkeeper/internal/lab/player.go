// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// A player carries out a preset on a laboratory. After the first error its methods do nothing.
type player struct {
	ctx  context.Context
	lab  *Lab
	rng  *rand.Rand // of the seed
	role []string   // the contenders, in the order that the seed chose
	err  error
}

// play carries out a preset. The same seed makes the same plan: the roles of the contenders, and the duration of the steps.
func (l *Lab) play(ctx context.Context, p *Preset, seed uint64) error {
	on := &player{ctx: ctx, lab: l, rng: rand.New(rand.NewPCG(seed, number(p.Name))), role: append([]string(nil), names...)}
	on.rng.Shuffle(len(on.role), func(i, j int) { on.role[i], on.role[j] = on.role[j], on.role[i] })
	on.reset()
	p.script(on)
	if on.err != nil {
		return fmt.Errorf("play %s with seed %d: %w", p.Name, seed, on.err)
	}
	return nil
}

// number returns a number for a name, so that presets differ with the same seed.
func number(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// reset ends all faults, and lets all contenders leave.
func (p *player) reset() {
	p.heal()
	for _, name := range []string{fenced, bare} {
		if v, _ := p.lab.journal.value(name + ".away"); v == true {
			p.do("bring-back", name)
		}
	}
	for _, name := range names {
		if p.lab.is(name+".process", "paused") {
			p.do("resume", name)
		}
		if p.lab.is(name+".network", "partitioned") {
			p.do("heal", name)
		}
		if p.lab.members[name].running.Load() && !p.lab.is(name+".lock", "out") {
			p.do("leave", name)
		}
	}
	for _, name := range names {
		if p.lab.members[name].running.Load() {
			p.awaitLock(name, "out")
		}
	}
	p.await("queue", "the queue to be empty", func(v any) bool { return len(v.([]position)) == 0 })
}

// heal connects the server that was cut off with the others.
func (p *player) heal() {
	if v, _ := p.lab.journal.value("isolated"); v != nil && v != 0 {
		p.do("servers", fmt.Sprintf("heal %v", v))
	}
}

// startAt starts a contender, if it does not run, at a server: the others refuse its first connection.
func (p *player) startAt(name string, server int) {
	m := p.lab.members[name]
	if p.err != nil {
		return
	}
	if m.running.Load() {
		if p.lab.server(m.current()) == server {
			return
		}
		if m.current() != 0 {
			p.do("expire", name)
		}
		p.do("kill", name)
	}
	refuse := func(on bool) {
		for _, s := range p.lab.ensemble.Servers() {
			if s.ID() != server {
				s.Refuse(on)
			}
		}
	}
	refuse(true)
	defer refuse(false)
	p.do("start", name)
	p.await(name+".server", name+" to have a session", func(v any) bool { return v == server })
}

// lead lets the contenders queue in the order of their roles, and the first one work for some time. The first one starts at a
// follower.
func (p *player) lead() {
	followers := []int{2, 3, 3}
	for i, name := range p.role {
		p.startAt(name, followers[i])
	}
	for _, name := range p.role {
		p.join(name)
	}
	p.awaitLock(p.role[0], "holds")
	p.between(time.Second, 2*time.Second)
}

// join lets a contender queue, and waits until it knows its position.
func (p *player) join(name string) {
	p.do("join", name)
	p.await(name+".lock", name+" to hold the lock or to wait for it", func(v any) bool { return v == "holds" || v == "waits" })
}

// do carries out an action.
func (p *player) do(do, who string) {
	if p.err == nil {
		p.err = p.lab.Do(p.ctx, Action{Do: do, Who: who})
	}
}

// note explains a step.
func (p *player) note(format string, args ...any) {
	if p.err == nil {
		p.lab.journal.add("preset", kindNote, fmt.Sprintf(format, args...), nil)
	}
}

// wait waits for a while.
func (p *player) wait(d time.Duration) {
	if p.err != nil {
		return
	}
	select {
	case <-time.After(d):
	case <-p.ctx.Done():
		p.err = context.Cause(p.ctx)
	}
}

// between waits for a time that the seed chooses.
func (p *player) between(least, most time.Duration) {
	p.wait(least + time.Duration(p.rng.Int64N(int64((most-least)/time.Millisecond)))*time.Millisecond)
}

// await waits until a value of the state is as wanted.
func (p *player) await(key, wanted string, is func(any) bool) {
	for p.err == nil {
		v, grown := p.lab.journal.value(key)
		if v != nil && is(v) {
			return
		}
		select {
		case <-grown:
		case <-p.ctx.Done():
			p.err = fmt.Errorf("wait for %s: %w", wanted, context.Cause(p.ctx))
		}
	}
}

// awaitLock waits until a contender reports what it has of the lock.
func (p *player) awaitLock(name, wanted string) {
	p.await(name+".lock", fmt.Sprintf("%s to report that it %s", name, wanted), func(v any) bool { return v == wanted })
}

// awaitWork waits until a holder has checked its hold and begins to work.
func (p *player) awaitWork(name string) {
	works := &p.lab.members[name].works
	before := works.Load()
	p.await("queue", name+" to check its hold", func(any) bool { return works.Load() != before })
}

// awaitWriter waits until both registers have a value of a contender.
func (p *player) awaitWriter(name string) {
	for _, r := range []string{fenced, bare} {
		p.await(r+".writer", "a write of "+name, func(v any) bool { return v == name })
	}
}

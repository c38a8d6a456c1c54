// SPDX-License-Identifier: Apache-2.0

package lab

import "time"

// docs is where the links of the presets point.
const docs = "https://github.com/lockkeeper/lockkeeper/blob/main/docs/"

// A Preset is a sequence of faults that shows one promise.
type Preset struct {
	Name     string `json:"name"`
	Title    string `json:"title"`
	Explains string `json:"explains"`
	Link     string `json:"link"` // to the page that explains it
	script   func(*player)
}

// presets are all presets, in the order of the page.
var presets = []*Preset{
	{
		Name: "paused-leader", Title: "A paused leader’s stale write",
		Explains: "The leader is paused between its check of the lock and its write, until another contender has the lock. " +
			"When it continues it writes with its old token: the fenced register rejects that, and the bare one accepts it.",
		Link: docs + "guarantees.md#fenced-resources",
		script: func(p *player) {
			leader, next := p.role[0], p.role[1]
			p.lead()
			before, _ := p.lab.journal.value(fenced + ".rejected")
			p.awaitWork(leader)
			p.wait(workTime / 4)
			p.note("%s has checked its hold, works, and is to be paused before it writes", leader)
			p.do("pause", leader)
			p.awaitLock(next, "holds")
			p.awaitWriter(next)
			p.note("%s has the lock, and %s does not know it", next, leader)
			p.between(time.Second, 3*time.Second)
			p.do("resume", leader)
			p.awaitLock(leader, "waits")
			if now, _ := p.lab.journal.value(fenced + ".rejected"); now != before {
				p.note("the write that %s had begun went out without another check of its hold: only a register can reject it", leader)
			} else { // on a busy machine
				p.note("the pause came too late, after a write: %s has checked its hold before the next one", leader)
			}
			p.awaitWriter(next)
			p.wait(time.Second)
		},
	},
	{
		Name: "partitioned-leader", Title: "A partitioned leader is notified first",
		Explains: "No packet of the leader arrives any more. It counts the time itself, and is notified before ZooKeeper grants " +
			"the lock to the next contender: it stops in time, and neither register gets a stale write.",
		Link: docs + "guarantees.md#notified-first",
		script: func(p *player) {
			leader, next := p.role[0], p.role[1]
			p.lead()
			p.do("partition", leader)
			p.awaitLock(leader, "lost")
			p.note("%s was notified, and still has the first node in the queue", leader)
			p.awaitLock(next, "holds")
			p.awaitWriter(next)
			p.between(300*time.Millisecond, 1200*time.Millisecond)
			p.do("heal", leader)
			p.awaitLock(leader, "waits")
			p.wait(time.Second)
		},
	},
	{
		Name: "predecessor-leaves", Title: "The predecessor leaves",
		Explains: "A contender watches the one in front of it. When that one gives up, the contender is woken but not granted the " +
			"lock: the holder is still ahead, and it watches the holder from now on.",
		Link: docs + "protocol.md#waiting",
		script: func(p *player) {
			leader, second, last := p.role[0], p.role[1], p.role[2]
			p.lead()
			p.note("%s watches %s", last, second)
			p.do("leave", second)
			p.await(last+".ahead", last+" to watch "+leader, func(v any) bool { return v == leader })
			p.note("%s was woken, and waits on: %s holds the lock", last, leader)
			p.between(time.Second, 2*time.Second)
			p.do("leave", leader)
			p.awaitLock(last, "holds")
			p.awaitWriter(last)
			p.wait(time.Second)
		},
	},
	{
		Name: "follower-without-leader", Title: "A follower without its leader",
		Explains: "The server of the holder is cut off from the other servers, and still answers pings and reads. The holder’s proofs of " +
			"liveness go through the quorum, and are not answered: it moves to another server before its session expires, and keeps the lock.",
		Link: docs + "guarantees.md#short-faults",
		script: func(p *player) {
			leader := p.role[0]
			p.lead()
			p.do("isolate", leader)
			isolated, _ := p.lab.journal.value("isolated")
			p.await(leader+".server", leader+" to move to another server", func(v any) bool { return v != 0 && v != isolated })
			p.note("%s has moved before its session could expire, and still has the lock", leader)
			p.wait(3 * time.Second)
			p.heal()
			p.between(time.Second, 2*time.Second)
		},
	},
}

// find returns the preset with a name, nil if there is none.
func find(name string) *Preset {
	for _, p := range presets {
		if p.Name == name {
			return p
		}
	}
	return nil
}

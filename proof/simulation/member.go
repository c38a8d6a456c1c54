// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// groupPath is the path of the group of all scenarios.
const groupPath = "/group"

// A member is a membership of a process that the run checks continuously.
type member struct {
	*group.Membership
	process *Process
	watched chan struct{} // closed when its goroutine has ended
}

// join joins the group, within wait. From then on the process records at which instants its client states that the member is
// registered. The member is nil after an error.
func (p *Process) join(id, metadata string, wait time.Duration) (*member, error) {
	g, err := group.New(p.client, groupPath, nil)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(p.ctx, wait)
	defer cancel()
	m, err := g.Join(ctx, id, []byte(metadata))
	if err != nil {
		return nil, err
	}
	joined := &member{m, p, make(chan struct{})}
	p.working.Go(joined.record)
	return joined, nil
}

// mustJoin is join for a scenario in which it succeeds.
func (p *Process) mustJoin(id, metadata string) *member {
	m, err := p.join(id, metadata, 8*p.world.opts.Timeout)
	p.must(err)
	return m
}

// record records the statements of the member's client until the membership has ended.
func (m *member) record() {
	defer close(m.watched)
	pace := time.NewTicker(m.process.world.opts.Timeout / 64)
	defer pace.Stop()
	for m.process.waitRunning() {
		// The state is read after the wait: a process that has just woken states what its client then knows.
		if state := m.State(); state.Registered {
			m.process.record(history.Event{
				Contender: m.process.name, Path: path.Dir(m.Path()), Node: m.Path(), Session: history.ID(state.Session),
			}, history.Registered)
		}
		select {
		case <-pace.C:
		case <-m.Done():
			return
		}
	}
}

// update replaces the metadata, which must be possible within wait.
func (m *member) update(metadata string) {
	if m == nil {
		return
	}
	ctx, cancel := context.WithTimeout(m.process.ctx, 8*m.process.world.opts.Timeout)
	defer cancel()
	m.process.must(m.Update(ctx, []byte(metadata)))
	state := m.State()
	data, stat, err := m.process.world.ensemble.Get(m.Path())
	if state.Registered && (err != nil || stat.EphemeralOwner == state.Session && string(data) != metadata) {
		m.process.world.problemf("%s: the metadata is %q after an update to %q (%w)", m.process.name, data, metadata, err)
	}
}

// awaitRegistered waits until the member is registered, which it must be again after any fault that has ended.
func (m *member) awaitRegistered() {
	if m == nil {
		return
	}
	ctx, cancel := context.WithTimeout(m.process.ctx, 8*m.process.world.opts.Timeout)
	defer cancel()
	for state := range m.States(ctx) {
		if state.Registered {
			return
		}
	}
	m.process.world.problemf("%s: member %s did not register again: %v", m.process.name, m.ID(), m.State())
}

// leave leaves the group.
func (m *member) leave() {
	if m == nil {
		return
	}
	if err := m.Leave(m.process.ctx); !errors.Is(err, recipes.ErrUncertain) {
		m.process.must(err)
	}
	<-m.watched
}

// follow has the process follow the group, and record each listing, until the process is closed.
func (p *Process) follow() {
	g, err := group.New(p.client, groupPath, nil)
	if err != nil {
		p.must(err)
		return
	}
	p.working.Go(func() {
		for change, err := range g.Observe(p.ctx) {
			if err != nil {
				if p.ctx.Err() == nil {
					p.must(err)
				}
				return
			}
			p.recordListed(change.Snapshot)
		}
	})
}

func (p *Process) recordListed(s group.Snapshot) {
	ids := make([]string, 0, len(s.Members))
	for _, m := range s.Members {
		ids = append(ids, m.ID)
	}
	p.mu.Lock()
	p.listed = s.Members
	p.mu.Unlock()
	p.record(history.Event{
		Contender: p.name, Path: groupPath, Zxid: history.ID(s.Revision), Text: strings.Join(ids, " "),
	}, history.Listed)
}

// mustHaveFollowed records a problem unless the last listing that the process got is what the ensemble has, once nothing has
// changed for a while. It also lists the group once: the client's own listing proves nothing, as it shares the watches.
func (p *Process) mustHaveFollowed() {
	if p.client == nil {
		return
	}
	time.Sleep(p.world.opts.Timeout + 2*p.world.lag)
	g, err := group.New(p.client, groupPath, nil)
	p.must(err)
	ctx, cancel := context.WithTimeout(p.ctx, 8*p.world.opts.Timeout)
	defer cancel()
	now, err := g.Members(ctx)
	p.must(err)
	p.mu.Lock()
	followed := p.listed
	p.mu.Unlock()
	same := func(a, b group.Member) bool {
		return a.ID == b.ID && string(a.Metadata) == string(b.Metadata) && a.Session == b.Session && a.Revision == b.Revision
	}
	if !slices.EqualFunc(followed, now.Members, same) {
		p.world.problemf("%s: followed the members until %v, and they are %v", p.name, followed, now.Members)
	}
	if members := p.world.members(); !slices.Equal(revisions(now.Members), members) {
		p.world.problemf("%s: listed the members %v, and the ensemble has %v", p.name, revisions(now.Members), members)
	}
	p.recordListed(now)
}

// members returns the members of the group that the ensemble has, with the zxids of their last changes.
func (w *World) members() (all []string) {
	names, err := w.ensemble.Children(groupPath)
	w.must(err)
	for _, name := range slices.Sorted(slices.Values(names)) {
		_, stat, err := w.ensemble.Get(groupPath + "/" + name)
		w.must(err)
		all = append(all, fmt.Sprint(name, " ", stat.Mzxid))
	}
	return all
}

func revisions(members []group.Member) (all []string) {
	for _, m := range members {
		all = append(all, fmt.Sprint(m.ID, " ", m.Revision))
	}
	return all
}

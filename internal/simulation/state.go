// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// parts are above the nodes in which state is kept in ZooKeeper itself: each transaction writes all of a path's.
var parts = []string{"/state", "/copy"}

// epochPath is where a path's epochs are counted.
func epochPath(path string) string { return epochsAbove + path }

const epochsAbove = "/epoch"

// A writer is a way to have ZooKeeper carry operations out.
type writer struct {
	epoch  int64 // 0 without one
	commit func(ctx context.Context, ops ...any) ([]zk.MultiResponse, error)
}

// plainly is that of a claim.
func plainly(claim *recipes.Claim) *writer { return &writer{commit: claim.Commit} }

// inEpoch claims an epoch, as often as that takes. There is none if the term was lost or superseded.
func (p *Process) inEpoch(ctx context.Context, by history.Event, claim *recipes.Claim) *writer {
	epochs, err := p.epochsOf(by.Path)
	if p.world.must(err); err != nil {
		return nil
	}
	// It gives up sooner than an answer may take, and then waits for longer.
	for patience := p.world.part(8); ; patience *= 2 {
		sent, ok := p.sending(by, claim, "epoch")
		if !ok {
			return nil
		}
		asking, cancel := context.WithTimeout(ctx, patience)
		e, err := epochs.Claim(asking, claim)
		cancel()
		answered := sent
		if err == nil {
			answered.Epoch = e.Number()
		}
		p.answered(answered, err)
		switch {
		case err == nil:
			return &writer{e.Number(), e.Commit}
		case claim.Err() != nil, errors.Is(err, fencing.ErrStale), ctx.Err() != nil:
			return nil
		case !errors.Is(err, recipes.ErrUncertain) && !errors.Is(err, context.DeadlineExceeded):
			p.world.must(err)
			return nil
		}
	}
}

// sending notes that the process is about to write to the ensemble.
func (p *Process) sending(by history.Event, claim *recipes.Claim, text string) (sent history.Event, ok bool) {
	by.Token, by.Write, by.Text = history.ID(claim.Token()), p.world.recorder.NextWrite(), text
	return by, p.tell(by, history.Sent)
}

// answered notes what came of it.
func (p *Process) answered(sent history.Event, err error) {
	sent.Cause, sent.Token, sent.Parts, sent.Text = history.Done, 0, 0, ""
	switch {
	case errors.Is(err, recipes.ErrUncertain):
		sent.Cause = history.Unknown
	case err != nil:
		sent.Cause = history.Refused // every other error says so
	}
	if err != nil {
		sent.Error = err.Error()
	}
	p.tell(sent, history.Answered)
}

// commit writes state into ZooKeeper itself.
func (p *Process) commit(ctx context.Context, by history.Event, claim *recipes.Claim, w *writer) {
	ctx, cancel := context.WithTimeout(ctx, p.world.opts.Timeout)
	defer cancel()
	by.Epoch, by.Parts = w.epoch, len(parts)
	sent, ok := p.sending(by, claim, "")
	if !ok {
		return
	}
	ops := make([]any, len(parts))
	for i, part := range parts {
		ops[i] = &zk.SetDataRequest{Path: part + by.Path, Data: writeState(sent), Version: -1}
	}
	_, err := w.commit(ctx, ops...)
	p.answered(sent, err)
	switch {
	case err == nil, errors.Is(err, recipes.ErrLost), errors.Is(err, recipes.ErrUncertain), ctx.Err() != nil:
	case w.epoch != 0 && errors.Is(err, fencing.ErrStale):
	default:
		p.world.must(err)
	}
}

// State says who wrote it: the ensemble's order of such writes is that of its transactions.

const stateFormat = "%s %d %s %d %d %d"

func writeState(by history.Event) []byte {
	return fmt.Appendf(nil, stateFormat, by.Contender, by.Attempt, by.Path, by.Token, by.Write, by.Epoch)
}

// written tells the history of state that was written.
func (w *World) written(c zktest.Commit) {
	e := history.Event{
		Kind: history.Wrote, Zxid: history.ID(c.Zxid), Session: history.ID(c.Session), Fenced: true, Accepted: true,
		Register: "zookeeper " + c.Path,
	}
	var token int64
	_, err := fmt.Sscanf(string(c.Data), stateFormat, &e.Contender, &e.Attempt, &e.Path, &token, &e.Write, &e.Epoch)
	if e.Token = history.ID(token); err == nil {
		w.recorder.AddAt(c.Time, e)
	}
}

// claimed tells the history of an epoch.
func (w *World) claimed(c zktest.Commit) {
	path, is := strings.CutPrefix(c.Path, epochsAbove)
	if !is || len(c.Data) == 0 {
		return
	}
	e := history.Event{
		Kind: history.Claimed, Zxid: history.ID(c.Zxid), Session: history.ID(c.Session), Path: path, Node: c.Path,
	}
	number, token, err := readEpoch(c.Data)
	if err != nil {
		w.failf("an epoch's node was written in a form that its readers do not know: %w", err)
		return
	}
	e.Epoch, e.Token = number, history.ID(token)
	w.recorder.AddAt(c.Time, e)
}

// readEpoch reads an epoch as those do who do not have the package.
func readEpoch(data []byte) (number int64, token fencing.Token, err error) {
	var text struct {
		Epoch int64
		Token fencing.Token
	}
	err = json.Unmarshal(data, &text)
	return text.Epoch, text.Token, err
}

// supersede ends the newest epoch of a path by hand.
func (w *World) supersede(path string) error {
	data, _, err := w.ensemble.Get(epochPath(path))
	if err != nil {
		return nil // there is none
	}
	number, _, err := readEpoch(data)
	if err != nil {
		return err
	}
	return w.ensemble.Set(epochPath(path), fmt.Appendf(nil, `{"format":1,"epoch":%d}`, number+1))
}

// forget deletes the count of a path's epochs, by hand.
func (w *World) forget(path string) error {
	if _, _, err := w.ensemble.Get(epochPath(path)); err != nil {
		return nil // there is none
	}
	return w.ensemble.Delete(epochPath(path))
}

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
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// "reign" is "campaign" with an epoch.
func init() {
	operations["reign"] = operation{acquire: (*Process).campaign, during: func(p *Process, by history.Event, got *grant, o Operation) {
		p.work(p.ctx, by, got.Claim, p.inEpoch(p.ctx, by, got.Claim), o.Hold)
	}}
}

// inEpoch claims an epoch, and retries while the outcome is unknown or an attempt times out. It returns nil if the term was
// lost or superseded.
func (p *Process) inEpoch(ctx context.Context, by history.Event, claim *recipes.Claim) *committer {
	epochs, err := p.epochsOf(by.Path)
	if p.world.must(err); err != nil {
		return nil
	}
	// The first attempts give up before an answer can arrive, and later ones wait longer.
	for patience := p.world.fraction(8); ; patience *= 2 {
		sent, ok := p.recordSent(by, claim, "epoch")
		if !ok {
			return nil
		}
		attempt, cancel := context.WithTimeout(ctx, patience)
		e, err := epochs.Claim(attempt, claim)
		cancel()
		answered := sent
		if err == nil {
			answered.Epoch = e.Number()
		}
		p.recordAnswered(answered, err)
		switch {
		case err == nil:
			return &committer{e.Number(), e.Commit}
		case claim.Err() != nil, errors.Is(err, fencing.ErrStale), ctx.Err() != nil:
			return nil
		case !errors.Is(err, recipes.ErrUncertain) && !errors.Is(err, context.DeadlineExceeded):
			p.world.must(err)
			return nil
		}
	}
}

// recordSent records that the process is about to write to the ensemble.
func (p *Process) recordSent(by history.Event, claim *recipes.Claim, text string) (sent history.Event, ok bool) {
	by.Token, by.Write, by.Text = history.ID(claim.Token()), p.world.recorder.NextWrite(), text
	return by, p.record(by, history.Sent)
}

// recordAnswered records the result of that write.
func (p *Process) recordAnswered(sent history.Event, err error) {
	sent.Cause, sent.Token, sent.Parts, sent.Text = history.Done, 0, 0, ""
	switch {
	case errors.Is(err, recipes.ErrUncertain):
		sent.Cause = history.Unknown
	case err != nil:
		sent.Cause = history.Refused // every other error states that nothing was committed
	}
	if err != nil {
		sent.Error = err.Error()
	}
	p.record(sent, history.Answered)
}

// commit writes state to ZooKeeper itself.
func (p *Process) commit(ctx context.Context, by history.Event, claim *recipes.Claim, w *committer) {
	ctx, cancel := context.WithTimeout(ctx, p.world.opts.Timeout)
	defer cancel()
	by.Epoch, by.Parts = w.epoch, len(stateParents)
	sent, ok := p.recordSent(by, claim, "")
	if !ok {
		return
	}
	ops := make([]any, len(stateParents))
	for i, part := range stateParents {
		ops[i] = &zk.SetDataRequest{Path: statePath(part, by.Path, by.Number), Data: writeState(sent), Version: -1}
	}
	_, err := w.commit(ctx, ops...)
	p.recordAnswered(sent, err)
	switch {
	case err == nil, errors.Is(err, recipes.ErrLost), errors.Is(err, recipes.ErrUncertain), ctx.Err() != nil:
	case w.epoch != 0 && errors.Is(err, fencing.ErrStale):
	default:
		p.world.must(err)
	}
}

// stateFormat is the format of written state, which identifies the write.
const stateFormat = "%s %d %s %d %d %d %t"

func writeState(by history.Event) []byte {
	return fmt.Appendf(nil, stateFormat, by.Contender, by.Attempt, by.Path, by.Token, by.Write, by.Epoch, by.Shared)
}

// recordWrote records state that the ensemble committed.
func (w *World) recordWrote(c zktest.Commit) {
	e := history.Event{
		Kind: history.Wrote, Zxid: history.ID(c.Zxid), Session: history.ID(c.Session), Fenced: true, Accepted: true,
		Register: "zookeeper " + c.Path,
	}
	var token int64
	_, err := fmt.Sscanf(string(c.Data), stateFormat, &e.Contender, &e.Attempt, &e.Path, &token, &e.Write, &e.Epoch, &e.Shared)
	if e.Token = history.ID(token); err == nil {
		w.recorder.AddAt(c.Time, e)
	}
}

// recordClaimed records an epoch that the ensemble committed.
func (w *World) recordClaimed(c zktest.Commit) {
	path, is := strings.CutPrefix(c.Path, epochsParent)
	if !is || len(c.Data) == 0 {
		return
	}
	e := history.Event{
		Kind: history.Claimed, Zxid: history.ID(c.Zxid), Session: history.ID(c.Session), Path: path, Node: c.Path,
	}
	number, token, err := readEpoch(c.Data)
	if err != nil {
		w.problemf("epoch of %s: committed in an unknown format: %w", path, err)
		return
	}
	e.Epoch, e.Token = number, history.ID(token)
	w.recorder.AddAt(c.Time, e)
}

// readEpoch parses an epoch independently of package epoch, as other programs do.
func readEpoch(data []byte) (number int64, token fencing.Token, err error) {
	var text struct {
		Epoch int64
		Token fencing.Token
	}
	err = json.Unmarshal(data, &text)
	return text.Epoch, text.Token, err
}

// supersede has an operator end the newest epoch of a path.
func (w *World) supersede(path string) error {
	data, _, err := w.ensemble.Get(epochPath(path))
	if err != nil {
		return nil // it does not exist
	}
	number, _, err := readEpoch(data)
	if err != nil {
		return err
	}
	return w.ensemble.Set(epochPath(path), fmt.Appendf(nil, `{"format":1,"epoch":%d}`, number+1))
}

// forget has an operator delete the node that counts a path's epochs.
func (w *World) forget(path string) error {
	if _, _, err := w.ensemble.Get(epochPath(path)); err != nil {
		return nil // it does not exist
	}
	return w.ensemble.Delete(epochPath(path))
}

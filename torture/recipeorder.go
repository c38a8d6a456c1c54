// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture/worker"
)

// recipeWritten appends what a write of a node beside a path means: the limit of a semaphore, the value or the hand-over of a
// leader, or a tick of a schedule. It parses the node independently of the recipes. e is the event of the write.
func (o *ordering) recipeWritten(e history.Event, data []byte) {
	if path, is := strings.CutSuffix(e.Node, "-limit"); is {
		var text struct{ Limit int }
		if json.Unmarshal(data, &text) == nil && text.Limit > 0 {
			e.Kind, e.Path, e.Limit, e.Session = history.Limited, path, text.Limit, 0
			o.events = append(o.events, e)
		}
		return
	}
	if o.electionWritten(e, data) {
		return
	}
	path, is := strings.CutSuffix(e.Node, "-last")
	var text struct {
		Tick  time.Time
		Token int64 `json:",string"`
	}
	if !is || !strings.HasPrefix(path, schedulesPath+"/") || json.Unmarshal(data, &text) != nil || text.Tick.IsZero() {
		return
	}
	e.Kind, e.Path, e.Token, e.Text = history.Stored, path, history.ID(text.Token), text.Tick.UTC().Format(time.RFC3339)
	o.events = append(o.events, e)
}

// electionWritten appends the write of what a leader publishes, or of its hand-over, and reports whether it was one.
func (o *ordering) electionWritten(e history.Event, data []byte) bool {
	var text struct {
		Token    int64 `json:",string"`
		Value    string
		Draining bool
		Target   string
	}
	if path, is := strings.CutSuffix(e.Node, "-value"); is {
		e.Kind, e.Path = history.Proclaimed, path
	} else if path, is := strings.CutSuffix(e.Node, "-handover"); is {
		e.Kind, e.Path = history.HandedOver, path
	}
	if e.Path == "" {
		return false
	}
	if json.Unmarshal(data, &text) != nil || text.Token == 0 {
		return true // the node is created empty
	}
	e.Token, e.Text = history.ID(text.Token), text.Target
	if e.Kind == history.Proclaimed {
		e.Write, e.Text = worker.Shown(text.Value, text.Draining)
	}
	o.events = append(o.events, e)
	return true
}

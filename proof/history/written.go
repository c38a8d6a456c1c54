// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// nodeText has the fields of the nodes beside a path that recipes write.
type nodeText struct {
	Limit      int
	Activation time.Time
	Token      int64 `json:",string"`
	Value      string
	Draining   bool
	Target     string
	Partitions []string
}

// writings has, by the suffix of such a node, what a write of it means. The functions report whether it is an event.
var writings = map[string]func(e *Event, text nodeText) bool{
	"-limit": func(e *Event, text nodeText) bool {
		e.Kind, e.Limit, e.Session, e.Token = Limited, text.Limit, 0, 0
		return text.Limit > 0
	},
	"-last": func(e *Event, text nodeText) bool {
		e.Kind, e.Text = Stored, text.Activation.UTC().Format(time.RFC3339)
		return !text.Activation.IsZero()
	},
	"-value": func(e *Event, text nodeText) bool {
		e.Kind = Proclaimed
		e.Write, e.Text = Shown(text.Value, text.Draining)
		return text.Token != 0
	},
	"/assigned/": func(e *Event, text nodeText) bool {
		e.Kind, e.Path, e.Text = Assigned, e.Path+"/leader", strings.Join(text.Partitions, " ")
		return text.Partitions != nil
	},
	"-handover": func(e *Event, text nodeText) bool {
		e.Kind, e.Text = HandedOver, text.Target
		return text.Token != 0
	},
}

// Written returns the event of a write of a node beside a path: the limit of a semaphore, an activation of a schedule, what a leader
// publishes, its hand-over, or what it assigns to a member. e is what is known of the write. Written parses the node independently of the recipes. ok is false
// for every other node, and for an empty one. It returns an error if the node has an unknown format.
func Written(e Event, data []byte) (_ Event, ok bool, err error) {
	for suffix, complete := range writings {
		path, is := strings.CutSuffix(e.Node, suffix)
		if strings.HasSuffix(suffix, "/") { // and the name of a member
			path, _, is = strings.Cut(e.Node, suffix)
		}
		if !is || len(data) == 0 {
			continue
		}
		var text nodeText
		if err := json.Unmarshal(data, &text); err != nil {
			return e, false, fmt.Errorf("%s: unknown format: %w", e.Node, err)
		}
		e.Path, e.Token = path, ID(text.Token)
		return e, complete(&e, text), nil
	}
	return e, false, nil
}

// Shown returns the number of a leader's value and the text of its event, given what the leader has published.
func Shown(value string, draining bool) (number int, text string) {
	number, _ = strconv.Atoi(value)
	if draining {
		text = "draining"
	}
	return number, text
}

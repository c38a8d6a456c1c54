// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// contenderName matches the name of a contender's node: of this library, Curator and
// go-zookeeper, or of Kazoo. All other children are no contenders.
var contenderName = regexp.MustCompile(`^(.*)(lock-|__lock__)(\d{10}|-\d{9,10})$`)

// isContender reports whether the name of a child is that of a contender.
func isContender(name string) bool { return contenderName.MatchString(name) }

// kindOf returns which program created the node of a contender, by its name and record.
func kindOf(c recipes.Contender) string {
	found := contenderName.FindStringSubmatch(c.Name)
	switch {
	case c.Host != "":
		return "lockkeeper"
	case found == nil:
		return "unknown"
	case found[2] == "__lock__":
		return "kazoo"
	case strings.HasPrefix(c.Name, "_c_") && strings.Count(c.Name, "-") == 6:
		return "curator" // _c_ and a UUID
	case strings.HasPrefix(c.Name, "_c_"):
		return "go-zookeeper"
	}
	return "unknown"
}

// A contender is a member of a queue, as commands print it.
type contender struct {
	Owner   string        `json:"owner"`
	Host    string        `json:"host,omitempty"`
	PID     int           `json:"pid,omitempty"`
	Since   *time.Time    `json:"since,omitempty"` // by the clock of its host
	Token   fencing.Token `json:"token"`
	Kind    string        `json:"kind"`
	Node    string        `json:"node"`
	Session string        `json:"session"`
}

func contenderOf(c recipes.Contender) *contender {
	found := &contender{
		Owner: c.Owner, Host: c.Host, PID: c.PID, Token: c.Token, Kind: kindOf(c), Node: c.Name,
		Session: hexID(c.Session),
	}
	if !c.Since.IsZero() {
		found.Since = &c.Since
	}
	return found
}

// since returns the time since when the contender is in the queue, for people.
func (c *contender) since() string {
	if c.Since == nil {
		return "-"
	}
	return c.Since.Local().Format(time.DateTime)
}

// owner returns the label of the contender in printable characters, since other programs
// can store any data.
func (c *contender) owner() string { return printable(c.Owner) }

// printable returns text as one line that does not control a terminal: "-" if it is empty.
func printable(text string) string {
	const most = 80
	var b strings.Builder
	for _, r := range text {
		if b.Len() >= most {
			b.WriteString("…")
			break
		}
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\ufffd' {
			r = '.'
		}
		b.WriteRune(r)
	}
	if b.Len() == 0 {
		return "-"
	}
	return b.String()
}

// hexID returns the id of a session as servers log it, "-" if there is none.
func hexID(id int64) string {
	if id == 0 {
		return "-"
	}
	return fmt.Sprintf("0x%x", uint64(id))
}

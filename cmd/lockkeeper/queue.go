// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// contenderName matches the name of a contender's node: of this library, Curator and
// go-zookeeper, of Kazoo, or of a read/write lock of this library or Curator. All other children
// are no contenders.
var contenderName = regexp.MustCompile(`^(.*)(lock-|__lock__|__WRIT__|__READ__)(\d{10}|-\d{9,10})$`)

// isContender reports whether the name of a child is a contender's.
func isContender(name string) bool { return contenderName.MatchString(name) }

// sharingName matches the name of a contender that can hold beside others: a reader, or one that claims permits.
var sharingName = regexp.MustCompile(`__READ__|-w\d+-lock-`)

// kindOf returns which program created the node of a contender, by its name and record: "lease"
// is the lock service.
func kindOf(c recipes.Contender) string {
	found := contenderName.FindStringSubmatch(c.Name)
	switch {
	case c.Kind == recipes.KindLease:
		return "lease"
	case c.Host != "":
		return "lockkeeper"
	case found == nil:
		return "unknown"
	case found[2] == "__lock__":
		return "kazoo"
	case strings.HasPrefix(c.Name, "_c_") && (strings.Count(c.Name, "-") == 6 || found[2] != "lock-"):
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
	Node    string        `json:"node,omitempty"`
	Session string        `json:"session,omitempty"`
	Shared  bool          `json:"shared,omitempty"`  // a reader
	Permits int           `json:"permits,omitempty"` // of a semaphore, that it has or waits for

	TTL     seconds     `json:"ttlSeconds,omitempty"` // of a lease; otherwise the session timeout, if it is known
	Expires *time.Time  `json:"expires,omitempty"`    // when a lease ends unless it is renewed, by the clock of the leader
	Revoked *revocation `json:"revoked,omitempty"`    // why the contender has to stop
}

// A revocation is an administrator's decision to end a hold.
type revocation struct {
	By     string `json:"by,omitempty"` // empty if it is not known, like Reason
	Reason string `json:"reason,omitempty"`
}

// String returns the revocation for people.
func (r *revocation) String() string {
	if r.By == "" {
		return "revoked"
	}
	return fmt.Sprintf("revoked by %q, reason %q", printable(r.By), printable(r.Reason))
}

func contenderOf(c recipes.Contender) *contender {
	found := &contender{
		Owner: c.Owner, Host: c.Host, PID: c.PID, Token: c.Token, Kind: kindOf(c), Node: c.Name,
		Shared: c.Shared, Permits: c.Permits, TTL: seconds(c.TTL),
	}
	if c.Session != 0 {
		found.Session = hexID(c.Session)
	}
	if !c.Since.IsZero() {
		found.Since = &c.Since
	}
	if c.Kind == recipes.KindLease {
		expires := c.Written.Add(c.TTL)
		found.Expires = &expires
	}
	if c.Revoked != nil {
		found.Revoked = &revocation{c.Revoked.By, c.Revoked.Reason}
	}
	return found
}

// since returns the time since when the contender is in the queue, for people.
func (c *contender) since() string { return clock(c.Since) }

// clock returns a time for people, "-" if there is none.
func clock(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

// owner returns the label of the contender in printable characters, since other programs
// can store any data.
func (c *contender) owner() string { return printable(c.Owner) }

// printable returns text as one line that does not control a terminal, and cuts a long one: "-" if it is empty.
func printable(text string) string {
	const most = 80
	line := printablePath(text)
	for i := range line {
		if i >= most {
			return line[:i] + "…"
		}
	}
	return cmp.Or(line, "-")
}

// printablePath returns a path, or the name of a node, as one line that does not control a terminal. It cuts none, so that people
// can use it.
func printablePath(path string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\ufffd' {
			return '.'
		}
		return r
	}, path)
}

// hexID returns the id of a session as servers log it.
func hexID(id int64) string { return fmt.Sprintf("0x%x", uint64(id)) }

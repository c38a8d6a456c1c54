// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A transcript is the record of the requests and answers on one server, one a line, in a form that does not depend on
// the server: zxids count from the scenario's start, sessions are numbered in order of appearance, and times are named
// after their transaction. Everything else is recorded verbatim.
type transcript struct {
	lines      []string
	base       int64           // zxid of the transaction that began the scenario
	times      map[int64]int64 // zxid to milliseconds
	sessions   []int64
	minTimeout int32 // session timeouts that the server grants, in milliseconds
	maxTimeout int32
	// unordered means that ACLs and events from here on are sorted, because a real server returns them in the order of
	// a hash table: see differences.
	unordered bool
}

func (t *transcript) add(format string, args ...any) {
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

func (t *transcript) zxid(z int64) string {
	switch {
	case z <= 0:
		return strconv.FormatInt(z, 10)
	case z < t.base:
		return "before"
	}
	return fmt.Sprintf("+%d", z-t.base)
}

// time names the time ms that a Stat gives for transaction z. Two transactions may or may not share a millisecond, so
// equal times of two mean nothing; but all changes of one transaction have the same time.
func (t *transcript) time(z, ms int64) string {
	if z <= 0 || z < t.base {
		if ms == 0 {
			return "@0"
		}
		return "@before"
	}
	known, seen := t.times[z]
	switch {
	case !seen && time.Since(time.UnixMilli(ms)).Abs() > 24*time.Hour:
		return fmt.Sprintf("@%d, not in milliseconds since 1970", ms)
	case !seen:
		t.times[z] = ms
		for earlier, then := range t.times {
			if earlier < z && then > ms {
				return fmt.Sprintf("@%s, before %s", t.zxid(z), t.zxid(earlier))
			}
		}
	case ms != known:
		return fmt.Sprintf("@%s%+dms", t.zxid(z), ms-known)
	}
	return "@" + t.zxid(z)
}

func (t *transcript) session(id int64) string {
	if id == 0 {
		return "none"
	}
	i := slices.Index(t.sessions, id)
	if i < 0 {
		i = len(t.sessions)
		t.sessions = append(t.sessions, id)
	}
	return fmt.Sprintf("session%d", i)
}

// owner names a node's owner, which is a session unless its first byte marks a container or a TTL.
func (t *transcript) owner(id int64) string {
	switch {
	case id == 0:
		return "none"
	case id == -1<<63:
		return "container"
	case uint64(id)>>56 == 0xff: //nolint:gosec // a test of the bits
		return fmt.Sprintf("ttl%d", id&(1<<56-1))
	}
	return t.session(id)
}

func (t *transcript) timeout(asked, granted int32) string {
	switch granted {
	case t.minTimeout:
		return "minimum"
	case t.maxTimeout:
		return "maximum"
	case asked:
		return "as requested"
	}
	return fmt.Sprintf("%dms", granted)
}

func (t *transcript) stat(s wire.Stat) string {
	return fmt.Sprintf("stat{c%s m%s p%s ctime%s mtime%s v%d cv%d av%d owner=%s len=%d kids=%d}",
		t.zxid(s.Czxid), t.zxid(s.Mzxid), t.zxid(s.Pzxid), t.time(s.Czxid, s.Ctime), t.time(s.Mzxid, s.Mtime),
		s.Version, s.Cversion, s.Aversion, t.owner(s.EphemeralOwner), s.DataLength, s.NumChildren)
}

// reply describes the body of a reply.
func (t *transcript) reply(r rawclient.Reply) string {
	var b strings.Builder
	if r.Path != nil {
		fmt.Fprintf(&b, " path=%s", *r.Path)
	}
	if r.Data != nil {
		fmt.Fprintf(&b, " data=%s", bytesText(*r.Data))
	}
	if r.ACL != nil {
		fmt.Fprintf(&b, " acl=%s", aclText(t.sorted(*r.ACL)))
	}
	if r.Names != nil {
		fmt.Fprintf(&b, " names=%s", namesText(*r.Names))
	}
	if r.Count != nil {
		fmt.Fprintf(&b, " count=%d", *r.Count)
	}
	if r.Code != nil {
		fmt.Fprintf(&b, " code=%v", *r.Code)
	}
	if r.Identities != nil {
		fmt.Fprintf(&b, " identities=%s", identitiesText(*r.Identities))
	}
	if r.Stat != nil {
		fmt.Fprintf(&b, " %s", t.stat(*r.Stat))
	}
	if r.Results != nil {
		for i, result := range *r.Results {
			fmt.Fprintf(&b, "\n    %d: %v %v%s", i, result.Op, result.Code, t.reply(result.Reply))
		}
	}
	if r.Trailing > 0 {
		fmt.Fprintf(&b, " trailing=%d", r.Trailing)
	}
	return b.String()
}

// packet describes a reply to a request of this operation.
func (t *transcript) packet(p rawclient.Packet, op wire.Op) string {
	head := fmt.Sprintf("%s %v", t.zxid(p.Zxid), p.Err)
	r, err := p.Reply(op)
	if err != nil {
		return fmt.Sprintf("%s unreadable body: %v: %x", head, err, p.Body)
	}
	return head + t.reply(r)
}

func (t *transcript) event(p rawclient.Packet) string {
	e, err := p.Event()
	if err != nil {
		return fmt.Sprintf("unreadable event: %v: %x", err, p.Body)
	}
	return fmt.Sprintf("%s %v state=%d %s %s", t.zxid(p.Zxid), p.Err, e.State, eventText(e.Type), e.Path)
}

// sorted returns the ACL, sorted if the transcript is unordered.
func (t *transcript) sorted(acl []wire.ACL) []wire.ACL {
	if !t.unordered {
		return acl
	}
	return slices.SortedFunc(slices.Values(acl), func(a, b wire.ACL) int { return strings.Compare(a.Scheme+a.ID, b.Scheme+b.ID) })
}

// sortEvents sorts the trailing events of one connection if the transcript is unordered.
func (t *transcript) sortEvents(name string) {
	if !t.unordered {
		return
	}
	from := len(t.lines)
	for from > 0 && strings.HasPrefix(t.lines[from-1], name+"! ") {
		from--
	}
	slices.Sort(t.lines[from:])
}

func bytesText(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case len(b) > 40:
		return fmt.Sprintf("%d bytes %q…", len(b), b[:8])
	}
	return strconv.Quote(string(b))
}

func aclText(acl []wire.ACL) string {
	parts := make([]string, len(acl))
	for i, a := range acl {
		parts[i] = fmt.Sprintf("%s:%s=%s", a.Scheme, a.ID, permsText(a.Perms))
	}
	return "[" + strings.Join(parts, " ") + "]"
}

func permsText(perms int32) string {
	if perms & ^wire.PermAll != 0 {
		return fmt.Sprintf("%#x", perms)
	}
	var b strings.Builder
	for i, letter := range "rwcda" {
		if perms&(1<<i) != 0 {
			b.WriteRune(letter)
		}
	}
	return b.String()
}

// namesText sorts the names: a real server returns children in the order of a hash table.
func namesText(names []string) string {
	if names == nil {
		return "null"
	}
	return fmt.Sprint(slices.Sorted(slices.Values(names)))
}

// identitiesText sorts the identities: a real server returns them in the order of a hash table. It replaces the
// client's address as the server sees it.
func identitiesText(ids []rawclient.Identity) string {
	texts := make([]string, len(ids))
	for i, w := range ids {
		if w.Scheme == "ip" && net.ParseIP(w.User) != nil {
			w.User = "address"
		}
		texts[i] = w.Scheme + ":" + w.User
	}
	return fmt.Sprint(slices.Sorted(slices.Values(texts)))
}

func eventText(e wire.EventType) string {
	switch e {
	case wire.EventNone:
		return "none"
	case wire.EventNodeCreated:
		return "created"
	case wire.EventNodeDeleted:
		return "deleted"
	case wire.EventNodeDataChanged:
		return "data changed"
	case wire.EventNodeChildrenChanged:
		return "children changed"
	}
	return fmt.Sprintf("event %d", e)
}

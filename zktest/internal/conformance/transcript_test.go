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

// A transcript is what was asked and answered on one server, a line each, in words that mean the same on any other
// server: zxids count from the scenario's start, sessions are named in the order in which they appear, and times are
// named after the transaction that they are of. All else is written down as it came.
type transcript struct {
	lines    []string
	base     int64           // zxid of the transaction that began the scenario
	times    map[int64]int64 // zxid to milliseconds
	sessions []int64
	least    int32 // session timeouts that the server grants, in milliseconds
	most     int32
	// unordered says that ACLs and events from here on come in the order of a hash table, and are sorted: see
	// differences.
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

// time names the moment at which a Stat says that transaction z was. Two transactions may fall into one millisecond
// or not, so equal times mean nothing; but all that one transaction did has its one time.
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
		return fmt.Sprintf("@%d which is not in milliseconds since 1970", ms)
	case !seen:
		t.times[z] = ms
		for earlier, then := range t.times {
			if earlier < z && then > ms {
				return fmt.Sprintf("@%s which is before %s", t.zxid(z), t.zxid(earlier))
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

// owner names a node's owner, which is a session unless the first byte says otherwise.
func (t *transcript) owner(id int64) string {
	switch {
	case id == 0:
		return "none"
	case id == -1<<63:
		return "container"
	case uint64(id)>>56 == 0xff: //nolint:gosec // the bits are meant
		return fmt.Sprintf("ttl%d", id&(1<<56-1))
	}
	return t.session(id)
}

func (t *transcript) timeout(asked, granted int32) string {
	switch granted {
	case t.least:
		return "the least"
	case t.most:
		return "the most"
	case asked:
		return "as asked"
	}
	return fmt.Sprintf("%dms", granted)
}

func (t *transcript) stat(s wire.Stat) string {
	return fmt.Sprintf("stat{c%s m%s p%s ctime%s mtime%s v%d cv%d av%d owner=%s len=%d kids=%d}",
		t.zxid(s.Czxid), t.zxid(s.Mzxid), t.zxid(s.Pzxid), t.time(s.Czxid, s.Ctime), t.time(s.Mzxid, s.Mtime),
		s.Version, s.Cversion, s.Aversion, t.owner(s.EphemeralOwner), s.DataLength, s.NumChildren)
}

// reply is the reply's body.
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
		fmt.Fprintf(&b, " who=%s", whoText(*r.Identities))
	}
	if r.Stat != nil {
		fmt.Fprintf(&b, " %s", t.stat(*r.Stat))
	}
	if r.Results != nil {
		for i, part := range *r.Results {
			fmt.Fprintf(&b, "\n    %d: %v %v%s", i, part.Op, part.Code, t.reply(part.Reply))
		}
	}
	if r.Trailing > 0 {
		fmt.Fprintf(&b, " and %d bytes more", r.Trailing)
	}
	return b.String()
}

// packet is a reply to a request of this operation.
func (t *transcript) packet(p rawclient.Packet, op wire.Op) string {
	head := fmt.Sprintf("%s %v", t.zxid(p.Zxid), p.Err)
	r, err := p.Reply(op)
	if err != nil {
		return fmt.Sprintf("%s and a body that cannot be read: %v: %x", head, err, p.Body)
	}
	return head + t.reply(r)
}

func (t *transcript) event(p rawclient.Packet) string {
	e, err := p.Event()
	if err != nil {
		return fmt.Sprintf("an event that cannot be read: %v: %x", err, p.Body)
	}
	return fmt.Sprintf("%s %v state=%d %s %s", t.zxid(p.Zxid), p.Err, e.State, eventText(e.Type), e.Path)
}

// sorted is the ACL in an order that does not depend on the server, where that is called for.
func (t *transcript) sorted(acl []wire.ACL) []wire.ACL {
	if !t.unordered {
		return acl
	}
	return slices.SortedFunc(slices.Values(acl), func(a, b wire.ACL) int { return strings.Compare(a.Scheme+a.ID, b.Scheme+b.ID) })
}

// closeRun sorts the events of one connection that stand at the end, where that is called for.
func (t *transcript) closeRun(name string) {
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

// namesText sorts: the order of children is that of a hash table.
func namesText(names []string) string {
	if names == nil {
		return "null"
	}
	return fmt.Sprint(slices.Sorted(slices.Values(names)))
}

// whoText sorts: identities are kept in a hash table. The address is that of this machine, as the server sees it.
func whoText(who []rawclient.Identity) string {
	parts := make([]string, len(who))
	for i, w := range who {
		if w.Scheme == "ip" && net.ParseIP(w.User) != nil {
			w.User = "address"
		}
		parts[i] = w.Scheme + ":" + w.User
	}
	return fmt.Sprint(slices.Sorted(slices.Values(parts)))
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

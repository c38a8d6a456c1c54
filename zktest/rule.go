// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A Rule selects requests of clients and scripts their outcome. The zero Rule selects
// every request and changes nothing: it counts.
//
// Request selection: a request must match every field that is set. A transaction
// (multi) matches if one of its operations does, so a rule for create also selects the
// transaction that creates a lock's contender.
type Rule struct {
	// Op is the operation's name in ZooKeeper: "create", "delete", "exists", "getData",
	// "setData", "getChildren", "multi", "check", "sync", "ping", "connect" (the handshake),
	// "closeSession" and so on. "create", "getChildren" and "setWatches" include their
	// variants (create2, createContainer, createTTL, getChildren2, setWatches2).
	// "notification" selects events that a server sends; no other value does.
	Op string

	// Path is the path of the node, as the client names it: the path of a sequential node
	// does not include its number.
	Path string

	// Below is also a path, and selects the nodes below it, at any depth. A rule has
	// either Path or Below.
	Below string

	// Session selects the requests of one session.
	Session int64

	// When selects by any other criterion. It is called for each request that all fields
	// above select, on a goroutine of its connection and without a lock: it may use the
	// Ensemble, but must not wait for that connection. Close waits until it has returned.
	When func(Request) bool

	// Skip is how many selected requests pass before the rule applies.
	Skip int

	// Times is how many requests the rule applies to; 0 means no limit.
	Times int

	// Before is called before a request that the rule applies to is carried out, under
	// the same conditions as When. It can change nodes, expire sessions, or signal to the
	// test that the request has arrived.
	Before func(Request)

	// Fail is the error that the request is answered with: ErrNoAuth, for instance. The
	// request has no effect, except that a refused write has a zxid, as in ZooKeeper. In
	// a transaction the first operation that the rule selects fails, and with it the
	// whole transaction; a multiRead fails as a whole. A failed read leaves no watch.
	// ErrThrottled refuses a request before it is proposed: also a transaction as a whole, and
	// without a zxid.
	// Handshakes, pings and closeSession cannot fail.
	Fail error

	// Delay postpones the reply.
	Delay time.Duration

	// Hold keeps the request (ToServer) or its reply (ToClient) from arriving until
	// Release. A held request has not been carried out. A held reply shows the state at
	// the moment at which the request was carried out. Later traffic on the same
	// connection waits behind it, pings and events included, because ZooKeeper answers in
	// order.
	Hold Direction

	// Lose ends the connection instead of carrying out the request (ToServer), or instead
	// of sending its reply (ToClient).
	Lose Direction

	_ struct{}
}

// A Request is a client's request, as a Rule's functions see it.
type Request struct {
	Op      string    // as in Rule.Op, without the grouping of variants
	Path    string    // "" if there is none; of a transaction, its first operation's
	Data    []byte    // of create and setData; it must not be changed
	Watch   bool      // of a read: it sets a watch
	Ops     []Request // of multi and multiRead
	Session int64     // of a handshake: the session to attach to, 0 for a new one
	Server  int       // the server that received it, by its id
	Size    int       // bytes, including the four of the frame's length
}

// opConnect is the operation of a handshake in rules: it has no number in the protocol.
const opConnect = "connect"

// check returns the code of the rule's error, OK if there is none. The error names the
// first invalid field.
func (r *Rule) check() (wire.Code, error) {
	names := append(wire.OpNames(), opConnect)
	names = slices.DeleteFunc(names, func(name string) bool { // no client's request has these
		return name == wire.OpError.String() || name == wire.OpCreateSession.String()
	})
	slices.Sort(names)
	code := codeOf(r.Fail)
	event := r.Op == wire.OpNotification.String()
	switch {
	case r.Op != "" && !slices.Contains(names, r.Op):
		return 0, fmt.Errorf("operation %q: must be one of %s", r.Op, strings.Join(names, ", "))
	case r.Path != "" && r.Below != "":
		return 0, fmt.Errorf("path %q and below %q: set one of them", r.Path, r.Below)
	case r.Path != "" && !isPath(r.Path):
		return 0, fmt.Errorf("path %q: must begin with / and not end with one", r.Path)
	case r.Below != "" && !isPath(r.Below):
		return 0, fmt.Errorf("below %q: must begin with / and not end with one", r.Below)
	case r.Skip < 0:
		return 0, fmt.Errorf("skip %d is negative", r.Skip)
	case r.Times < 0:
		return 0, fmt.Errorf("times %d is negative", r.Times)
	case r.Delay < 0:
		return 0, fmt.Errorf("delay %v is negative", r.Delay)
	case r.Hold&^Both != 0:
		return 0, fmt.Errorf("hold %d: must be ToServer, ToClient or both", r.Hold)
	case r.Lose != 0 && r.Lose != ToServer && r.Lose != ToClient:
		return 0, fmt.Errorf("lose %v: must be ToServer or ToClient", r.Lose)
	case r.Lose != 0 && (r.Fail != nil || r.Delay != 0 || r.Hold&ToClient != 0):
		return 0, errors.New("lose: excludes Fail, Delay and holding the reply: there is no reply")
	case r.Fail != nil && code == wire.OK:
		return 0, fmt.Errorf("fail %q: must be an error that a server answers, such as ErrNoAuth", r.Fail) //nolint:errorlint // the value of a field, and not a cause
	case r.Fail != nil && cannotFail(r.Op):
		return 0, fmt.Errorf("fail %q: operation %q cannot fail", r.Fail, r.Op) //nolint:errorlint // likewise
	case event && (r.When != nil || r.Before != nil || (r.Hold|r.Lose)&ToServer != 0):
		return 0, errors.New(`operation "notification": excludes When, Before and ToServer: an event only goes to the client`)
	}
	return code, nil
}

func isPath(path string) bool {
	return path == "/" || strings.HasPrefix(path, "/") && !strings.HasSuffix(path, "/")
}

// cannotFail reports whether the operation is one that no server answers with an error.
func cannotFail(op string) bool {
	switch op {
	case opConnect, wire.OpPing.String(), wire.OpCloseSession.String(), wire.OpNotification.String():
		return true
	}
	return false
}

// sameOp reports whether the operation named in a rule covers the operation op.
func sameOp(rule, op string) bool {
	switch rule {
	case op:
		return true
	case "":
		return op != wire.OpNotification.String()
	case "create":
		return op == wire.OpCreate2.String() || op == wire.OpCreateContainer.String() || op == wire.OpCreateTTL.String()
	case "getChildren":
		return op == wire.OpGetChildren2.String()
	case "setWatches":
		return op == wire.OpSetWatches2.String()
	}
	return false
}

// selectsPath reports whether the rule selects the node at path.
func (r *Rule) selectsPath(path string) bool {
	switch {
	case r.Path != "":
		return path == r.Path
	case r.Below != "":
		return strings.HasPrefix(path, strings.TrimSuffix(r.Below, "/")+"/") && path != "/"
	}
	return true
}

// describe returns the form in which rules see a request, or an operation of a
// transaction.
func describe(op wire.Op, body any) Request {
	seen := Request{Op: op.String()}
	describeOps := func(ops []any) {
		for _, body := range ops {
			seen.Ops = append(seen.Ops, describe(opOf(body, op), body))
		}
		if len(seen.Ops) > 0 {
			seen.Path = seen.Ops[0].Path
		}
	}
	switch body := body.(type) {
	case wire.ConnectRequest:
		seen.Session = body.Session
	case wire.Create:
		seen.Path, seen.Data = body.Path, body.Data
	case wire.Delete:
		seen.Path = body.Path
	case wire.SetData:
		seen.Path, seen.Data = body.Path, body.Data
	case wire.SetACL:
		seen.Path = body.Path
	case wire.Check:
		seen.Path = body.Path
	case wire.Multi:
		describeOps(body.Ops)
	case wire.MultiRead:
		describeOps(body.Ops)
	case wire.Exists:
		seen.Path, seen.Watch = body.Path, body.Watch
	case wire.GetData:
		seen.Path, seen.Watch = body.Path, body.Watch
	case wire.GetACL:
		seen.Path = body.Path
	case wire.GetChildren:
		seen.Path, seen.Watch = body.Path, body.Watch
	case wire.Sync:
		seen.Path = body.Path
	case wire.AddWatch:
		seen.Path, seen.Watch = body.Path, true
	case wire.CheckWatches:
		seen.Path = body.Path
	case wire.RemoveWatches:
		seen.Path = body.Path
	case wire.GetEphemerals:
		seen.Path = body.Prefix
	case wire.GetAllChildrenNumber:
		seen.Path = body.Path
	}
	return seen
}

// opOf returns the operation of an element of a transaction, or otherwise if its type
// does not imply one.
func opOf(body any, otherwise wire.Op) wire.Op {
	switch body := body.(type) {
	case wire.Create:
		return body.Op
	case wire.Delete:
		return wire.OpDelete
	case wire.SetData:
		return wire.OpSetData
	case wire.Check:
		return wire.OpCheck
	case wire.GetData:
		return wire.OpGetData
	case wire.GetChildren:
		return wire.OpGetChildren
	}
	return otherwise
}

// SPDX-License-Identifier: Apache-2.0

package session

import (
	"container/list"
	"slices"

	"github.com/go-zookeeper/zk"
)

// A Write is the operations of one caller, which are carried out together or not at all.
type Write struct {
	// Queue is the path of the queue that the operations join or leave. A group has one write of each queue: the reply to a join
	// shows the queue as the join left it, and no write removes what another one of the group checks. It is empty for
	// operations that neither create nor delete a node.
	Queue string

	// Alone is set for a write that a server is likely to refuse, or that is not grouped for another reason.
	Alone bool

	// Operations is called once, as late as possible, and then must not be nil.
	Operations func() []any

	as   Role
	ops  []any
	told chan told     // with room for one
	in   *list.Element // of groups.pending, nil if the write is not pending

	each []zk.MultiResponse // the answer: as many as there are operations, or none
	err  error
}

// told is what the caller of a pending write is to do.
type told int

const (
	answered  told = iota // its write was answered
	sendGroup             // it sends the next group
	sendAlone             // it sends its write alone, as a server has refused the group
)

// operations returns the operations, and determines them at the first call.
func (w *Write) operations() []any {
	if w.ops == nil {
		w.ops = w.Operations()
	}
	return w.ops
}

// bytes is SizeOf for the operations of the write.
func (w *Write) bytes() int { return SizeOf(w.operations()...) }

// SizeOf returns no less than the size of operations in a request, in bytes.
func SizeOf(ops ...any) (size int) {
	for _, op := range ops {
		size += 64 // more than the numbers and lengths take
		switch op := op.(type) {
		case *zk.CreateRequest:
			size += len(op.Path) + len(op.Data)
			for _, acl := range op.Acl {
				size += len(acl.Scheme) + len(acl.ID) + 12
			}
		case *zk.SetDataRequest:
			size += len(op.Path) + len(op.Data)
		case *zk.DeleteRequest:
			size += len(op.Path)
		case *zk.CheckVersionRequest:
			size += len(op.Path)
		}
	}
	return size
}

// isRefused reports whether a server has refused one of the operations of a transaction.
func isRefused(each []zk.MultiResponse, err error) bool {
	return !Retryable(err) && slices.ContainsFunc(each, func(r zk.MultiResponse) bool { return r.Error != nil })
}

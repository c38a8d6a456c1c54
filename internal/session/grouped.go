// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"

	"github.com/go-zookeeper/zk"
)

// WriteGrouped sends the operations of a caller, and waits for the answer even if ctx ends in the meantime. It waits for its turn
// and for a server no longer than ctx. While no group is in flight, it sends them immediately; otherwise they share a transaction
// with the writes of other callers, which is sent once that group is answered.
//
// A transaction that the server refuses changes nothing, and each of its writes is then sent alone. The next writes of a queue
// that is refused then stay alone until one is carried out. What an overloaded server throttles is sent again with back-off, as long
// as the ctx of its caller allows, and may then share a transaction with other writes. If the outcome of a transaction is unknown,
// each of its writes has an unknown outcome too.
func (s *sender) WriteGrouped(ctx context.Context, as Role, w *Write) ([]zk.MultiResponse, error) {
	w.as = as
	for pause := (backOff{}); ; {
		each, err := s.writeOnce(ctx, w)
		if !s.mayResend(err) {
			return each, err
		}
		if err := pause.wait(ctx, s, err); err != nil {
			return nil, unsentErr{err}
		}
	}
}

// writeOnce is one attempt of WriteGrouped.
func (s *sender) writeOnce(ctx context.Context, w *Write) ([]zk.MultiResponse, error) {
	w.each, w.err = nil, nil
	leads, grouped := s.groups.arrive(w)
	if !grouped {
		return s.writeAlone(ctx, w)
	}
	next := sendGroup
	if !leads {
		var err error
		select {
		case next = <-w.told:
		case <-ctx.Done():
			err = ctx.Err()
		case <-s.ctx.Done():
			err = s.Ended()
		}
		if err != nil {
			if s.groups.leave(w) {
				return nil, unsentErr{err}
			}
			next = <-w.told
		}
	}
	if next == sendGroup {
		next = s.writeGroup(ctx, w)
	}
	if next == sendAlone {
		if err := ctx.Err(); err != nil {
			return nil, unsentErr{err}
		}
		return s.writeAlone(ctx, w)
	}
	return w.each, w.err
}

// WriteApart is WriteGrouped for a caller that returns no later than ctx ends. The outcome of its write may then be unknown.
func (s *sender) WriteApart(ctx context.Context, as Role, w *Write) ([]zk.MultiResponse, error) {
	if err := s.awaitAttached(ctx); err != nil {
		return nil, unsentErr{err}
	}
	return apart(ctx, s, func() {}, func() ([]zk.MultiResponse, error) { return s.WriteGrouped(ctx, as, w) })
}

// writeAlone sends the operations of one caller in a transaction of their own.
func (s *sender) writeAlone(ctx context.Context, w *Write) ([]zk.MultiResponse, error) {
	each, err := CallAndWait(ctx, s, w.as, func(conn *zk.Conn) ([]zk.MultiResponse, error) {
		return transact(conn, w.operations())
	})
	s.groups.record(w, each, err)
	return each, err
}

// writeGroup waits for a turn, and sends the write with those that are pending by then.
func (s *sender) writeGroup(ctx context.Context, first *Write) told {
	mine, err := s.TakeTurn(ctx, first.as)
	if err == nil && first.told != nil && ctx.Err() != nil { // while the write was pending
		mine.End()
		err = ctx.Err()
	}
	if err != nil {
		first.err = unsentErr{err}
		s.groups.resign(first)
		return answered
	}
	group, ops := s.groups.compose(&mine, first)
	next := s.sendGroup(&mine, group, ops)
	s.groups.end(group) // before a caller comes with the next write of its queue
	for _, w := range group[1:] {
		w.told <- next
	}
	return next
}

// sendGroup sends a group once, and returns what the callers of its writes do.
func (s *sender) sendGroup(mine *Turn, group []*Write, ops []any) told {
	defer mine.End()
	if err := s.begin(); err != nil {
		return answer(group, nil, unsentErr{err})
	}
	each, err := transact(s.conn, ops)
	s.finish()
	s.endIfExpired(err)
	if isRefused(each, err) {
		if len(group) > 1 {
			return sendAlone
		}
		s.groups.record(group[0], each, err)
	}
	return answer(group, each, err)
}

// answer passes the answer to a group on to its writes.
func answer(group []*Write, each []zk.MultiResponse, err error) told {
	begin := 0
	for _, w := range group {
		end := begin + len(w.ops)
		if w.err = err; end <= len(each) {
			w.each = each[begin:end]
		}
		begin = end
	}
	return answered
}

// transact sends operations. A single create or delete needs no transaction.
func transact(conn *zk.Conn, ops []any) ([]zk.MultiResponse, error) {
	if len(ops) == 1 {
		switch op := ops[0].(type) {
		case *zk.CreateRequest:
			path, err := conn.Create(op.Path, op.Data, op.Flags, op.Acl)
			return []zk.MultiResponse{{String: path, Error: err}}, err
		case *zk.DeleteRequest:
			err := conn.Delete(op.Path, op.Version)
			return []zk.MultiResponse{{Error: err}}, err
		}
	}
	return conn.Multi(ops...)
}

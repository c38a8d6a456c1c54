// SPDX-License-Identifier: Apache-2.0

package tree

import "github.com/lockkeeper/lockkeeper/zktest/internal/wire"

// multi decides each operation on the state that the earlier ones leave. If one is
// refused, all are; the transaction then contains a code for each.
func (d *decision) multi(req wire.Multi) (any, wire.Code) {
	d.pending = make(map[string]*record, 2*len(req.Ops))
	ops := make([]any, 0, len(req.Ops))
	failed, reason := -1, wire.OK
	for i, op := range req.Ops {
		if create, ok := op.(wire.Create); ok {
			if create, ok = inTransaction(create); !ok {
				return nil, wire.MarshallingError
			}
			op = create
		}
		body, code := d.decide(op)
		if code != wire.OK {
			failed, reason = i, code
			break
		}
		ops = append(ops, body)
	}
	if failed < 0 {
		return multiTxn{ops: ops}, wire.OK
	}
	ops = ops[:0]
	for i, op := range req.Ops {
		code := wire.OK
		switch {
		case i == failed:
			code = reason
		case i > failed:
			code = wire.RuntimeInconsistency
		}
		kind, path := objectOf(op)
		ops = append(ops, errorTxn{op: kind, path: path, code: code})
	}
	return multiTxn{ops: ops}, wire.OK
}

// inTransaction returns a create as ZooKeeper interprets it within a transaction: the
// flags alone decide the node's lifetime, and createTTL loses its TTL if they request none.
// It reports false for flags that request a TTL in an operation without that field, which
// break ZooKeeper's decoder.
func inTransaction(req wire.Create) (_ wire.Create, ok bool) {
	life, _, known := modeOf(req.Flags)
	switch {
	case !known || life == persistent || life == ephemeral:
		req.Op, req.TTL = wire.OpCreate, 0
	case life == container:
		req.Op, req.TTL = wire.OpCreateContainer, 0
	default:
		return req, req.Op == wire.OpCreateTTL
	}
	return req, true
}

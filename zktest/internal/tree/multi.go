// SPDX-License-Identifier: Apache-2.0

package tree

import "github.com/lockkeeper/lockkeeper/zktest/internal/wire"

// multi decides each operation on what the ones before it leave. If one is refused,
// so are all; the transaction then says of each why.
func (d *decision) multi(req wire.Multi) (any, wire.Code) {
	d.pending = make(map[string]*record, 2*len(req.Ops))
	ops := make([]any, 0, len(req.Ops))
	failed, reason := -1, wire.OK
	for i, op := range req.Ops {
		if create, ok := op.(wire.Create); ok {
			if create, ok = asPart(create); !ok {
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
		kind, path := about(op)
		ops = append(ops, errorTxn{op: kind, path: path, code: code})
	}
	return multiTxn{ops: ops}, wire.OK
}

// asPart is a create as ZooKeeper understands it within a transaction: the flags
// alone decide what it makes, and createTTL loses its TTL where they ask for none.
// Flags that ask for a TTL which the operation has no room for break its decoder.
func asPart(req wire.Create) (_ wire.Create, ok bool) {
	l, _, known := modeOf(req.Flags)
	switch {
	case !known || l == persistent || l == ephemeral:
		req.Op, req.TTL = wire.OpCreate, 0
	case l == container:
		req.Op, req.TTL = wire.OpCreateContainer, 0
	default:
		return req, req.Op == wire.OpCreateTTL
	}
	return req, true
}

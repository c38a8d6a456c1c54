// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// answer answers a decided request. The caller holds the ensemble's mu, as in all of this
// file.
func (c *conn) answer(r *request) {
	switch body := r.body.(type) {
	case createSession, attach:
		c.answerHandshake(r)
	case wire.CloseSession:
		c.reply(r, r.zxid, r.outcome.Code, nil)
		c.finish(nil)
	case wire.Sync:
		c.reply(r, c.server.zxid, wire.OK, func(w *wire.Writer) { w.String(body.Path) })
	default:
		if r.quorum {
			zxid := r.zxid
			if zxid == 0 {
				zxid = c.server.zxid
			}
			c.reply(r, zxid, r.outcome.Code, putOutcome(r.outcome))
			return
		}
		code, put := c.server.read(c, r)
		c.reply(r, c.server.zxid, code, put)
	}
}

// reply sends an answer: a header, and a body unless body is nil.
func (c *conn) reply(r *request, zxid int64, code wire.Code, body func(*wire.Writer)) {
	w := wire.NewWriter()
	wire.ReplyHeader{Xid: r.xid, Zxid: zxid, Err: code}.Put(w)
	if body != nil {
		body(w)
	}
	if w.Len() > maxOutbound {
		c.finish(fmt.Errorf("reply to %v: larger than %d bytes", r.op, maxOutbound))
		return
	}
	c.sendBy(r.effects, w.Frame())
}

// putOutcome returns the function that writes the body of the answer to a write, nil if
// the answer has none.
func putOutcome(o tree.Outcome) func(*wire.Writer) {
	if o.Code != wire.OK {
		return nil
	}
	if o.Op == wire.OpMulti {
		return func(w *wire.Writer) { putMulti(w, o) }
	}
	switch o.Op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpSetData, wire.OpSetACL:
		return func(w *wire.Writer) { putResult(w, o) }
	}
	return nil
}

func putResult(w *wire.Writer, o tree.Outcome) {
	switch o.Op {
	case wire.OpCreate:
		w.String(o.Path)
	case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		w.String(o.Path)
		o.Stat.Put(w)
	case wire.OpSetData, wire.OpSetACL:
		o.Stat.Put(w)
	}
}

func putMulti(w *wire.Writer, o tree.Outcome) {
	failed := o.Err() != wire.OK
	for _, r := range o.Results {
		if failed {
			wire.PutMultiHeader(w, wire.OpError, false, r.Code)
			w.Int32(int32(r.Code))
			continue
		}
		wire.PutMultiHeader(w, r.Op, false, wire.OK)
		putResult(w, r)
	}
	wire.PutMultiHeader(w, wire.OpError, true, -1)
}

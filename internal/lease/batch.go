// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A transaction of lease writes has at most so many of them, and so many bytes of records.
const (
	maxBatch      = 64
	maxBatchBytes = 256 << 10
)

// A Write is one of several writes that travel together: see WriteAll.
type Write struct {
	Requests  *Requests
	Contender Contender // as it was read; WriteAll sets it to what results
	Lease     Lease
	Err       error // set by WriteAll, as of Requests.Write

	data []byte
}

// WriteAll carries out the writes, up to 64 of one session in one transaction. If a server
// refuses a transaction, each of its writes is sent alone, all at the same time. Once ctx is done,
// it sends no more.
func WriteAll(ctx context.Context, writes []*Write) {
	for len(writes) > 0 {
		batch, rest := nextBatch(writes)
		if err := ctx.Err(); err != nil {
			for _, w := range batch {
				w.Err = &recipes.Error{Op: "write", Path: w.Requests.path(w.Contender.Name), Err: session.NotSent(err)}
			}
		} else {
			writeBatch(ctx, batch)
		}
		writes = rest
	}
}

// nextBatch encodes and returns the writes of the next transaction, and the remaining ones.
func nextBatch(writes []*Write) (batch, rest []*Write) {
	size := 0
	var s *client.Session
	for _, w := range writes {
		if w.data == nil {
			if w.data, w.Err = w.Lease.encode(); w.Err != nil {
				continue
			}
		}
		if s == nil {
			s = w.Requests.session
		}
		if w.Requests.session != s || len(batch) == maxBatch || len(batch) > 0 && size+w.size() > maxBatchBytes {
			rest = append(rest, w)
			continue
		}
		batch, size = append(batch, w), size+w.size()
	}
	return batch, rest
}

// size returns the bytes of the write in a transaction, without its numbers.
func (w *Write) size() int {
	return len(w.Requests.queue.Path()) + len(w.Contender.Name) + len(w.data)
}

func writeBatch(ctx context.Context, batch []*Write) {
	if len(batch) == 0 {
		return
	}
	ops := make([]any, len(batch))
	for i, w := range batch {
		ops[i] = &zk.SetDataRequest{Path: w.Requests.path(w.Contender.Name), Data: w.data, Version: w.Contender.Version}
	}
	r := batch[0].Requests
	results, err := r.session.WriteApart(ctx, session.Ordinary, &session.Write{Operations: func() []any { return ops }})
	if err == nil && len(results) != len(batch) {
		err = sentinel.ErrUncertain
	}
	refused := session.OutcomeOf(err) == session.Refused && !errors.Is(err, zk.ErrSessionExpired)
	var alone sync.WaitGroup
	defer alone.Wait()
	for i, w := range batch {
		switch {
		case err == nil:
			w.done(results[i].Stat)
		case refused:
			alone.Go(func() { w.Contender, w.Err = w.Requests.Write(ctx, w.Contender, w.Lease) })
		default:
			w.Err = certain(&recipes.Error{Op: "write", Path: w.Requests.path(w.Contender.Name), Err: err})
		}
	}
}

// done records that the write was carried out.
func (w *Write) done(stat *zk.Stat) {
	w.Contender = w.Contender.written(w.Lease, stat)
	w.Requests.queue.Observe(w.Contender.Contender)
}

// written returns the contender after a write of its record.
func (c Contender) written(l Lease, stat *zk.Stat) Contender {
	c.Lease, c.TTL, c.Held, c.Revoked = &l, l.TTL, l.Held, l.Revoked
	c.Version, c.Written = stat.Version, time.UnixMilli(stat.Mtime)
	return c
}

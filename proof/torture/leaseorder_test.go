// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/txnlog"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
)

func TestDeletedLeaseHasExpiredOnlyAfterItsLastTTL(t *testing.T) {
	const node, other = root + "/locks/a/1-rn-lock-0000000000", root + "/locks/a/1-lock-0000000001"
	const lease, waiting = `{"nonce":"n","kind":"lease","ttl":3200}`, `{"nonce":"n","kind":"lease","ttl":30000}`
	type txn struct {
		at   time.Duration
		part txnlog.Part
	}
	create := func(data string) txn {
		return txn{0, txnlog.Part{Type: txnlog.Create2, Paths: []string{node}, Data: []byte(data)}}
	}
	write := func(at time.Duration, node, data string) txn {
		return txn{at, txnlog.Part{Type: txnlog.SetData, Paths: []string{node}, Data: []byte(data)}}
	}
	deleted := func(at time.Duration, node string) txn {
		return txn{at, txnlog.Part{Type: txnlog.Delete, Paths: []string{node}}}
	}
	for name, c := range map[string]struct {
		txns   []txn
		kinds  []history.Kind
		cause  history.Cause
		ttl    history.Instant // of the last event that has one
		marked bool            // a renewal says that the contender was revoked
	}{
		"at its TTL × 33/32": {
			[]txn{create(lease), deleted(3300*time.Millisecond, node)}, []history.Kind{history.Created, history.Deleted}, history.ByTimeout, 3.2e9, false,
		},
		"before": {
			[]txn{create(lease), deleted(3298*time.Millisecond, node)}, []history.Kind{history.Created, history.Deleted}, history.ByRequest, 3.2e9, false,
		},
		"after a renewal": {
			[]txn{create(waiting), write(time.Second, node, lease), deleted(3300*time.Millisecond, node)},
			[]history.Kind{history.Created, history.Renewed, history.Deleted},
			history.ByRequest, 3.2e9, false,
		},
		"after a revocation": {
			[]txn{create(lease), write(time.Second, node, `{"nonce":"n","kind":"lease","ttl":3200,"revoked":{"by":"a"}}`), deleted(4400*time.Millisecond, node)},
			[]history.Kind{history.Created, history.Renewed, history.Deleted},
			history.ByRevocation, 3.2e9, true,
		},
		"a revoked contender with a session": {
			[]txn{
				{0, txnlog.Part{Type: txnlog.Create2, Paths: []string{other}, Ephemeral: true}},
				write(time.Second, other, `{"nonce":"n","kind":"session","ttl":4000,"revoked":{"by":"a"}}`), deleted(2*time.Second, other),
			},
			[]history.Kind{history.Created, history.Renewed, history.Deleted},
			history.ByRevocation, 0, true,
		},
		"another node of the operator's": {
			[]txn{create("value"), write(time.Second, node, "value"), deleted(9*time.Second, node)},
			[]history.Kind{history.Created, history.Deleted},
			history.ByRequest, 0, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			log := txnlog.Server{}
			for i, x := range c.txns {
				log.Txns = append(log.Txns, txnlog.Txn{Zxid: int64(1<<32 + i + 1), Session: 7, Request: 1, Time: began.Add(x.at), Type: x.part.Type, Part: x.part})
			}
			scale := &clocks{pairs: []bothClocks{{began, 0}}}
			events := order(new(verdict.Result), []txnlog.Server{log}, func([]txnlog.Txn) *clocks { return scale })
			var kinds []history.Kind
			var ttl history.Instant
			marked := false
			for _, e := range events {
				kinds = append(kinds, e.Kind)
				marked = marked || e.Kind == history.Renewed && e.Cause == history.Revoked
				if e.Lease != 0 {
					ttl = e.Lease
				}
			}
			require.Equal(t, c.kinds, kinds)
			require.Equal(t, c.cause, events[len(events)-1].Cause)
			require.Equal(t, c.ttl, ttl)
			require.Equal(t, c.marked, marked)
		})
	}
}

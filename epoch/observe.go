// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"context"
	"fmt"
	"iter"

	"github.com/lockkeeper/lockkeeper/internal/ctxerr"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Observe follows the epochs: it yields the newest, if there is one, and each later one when it is claimed. A reader that
// is slower than the claims skips to the newest. Observe yields nothing when the node is deleted, and then yields the next
// epoch that is claimed.
//
// It shows the node as seen by the server that the client is connected to, which may lag behind. It continues across
// disconnections and sessions. It ends when the reader stops, or with an error as its last element that states the reason:
// ctx's, recipes.ErrClosed, that the node's data is not an epoch, or that with which a server refused.
//
// All observers of a client share one watch.
func (es *Epochs) Observe(ctx context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		var last Record
		for {
			now, changed, err := es.node.Watch(ctx)
			if err != nil {
				yield(Record{}, fmt.Errorf("observe epochs: %w", err))
				return
			}
			if newest := now.record(); newest.Number != 0 && !newest.same(last) {
				last = newest
				if !yield(newest, nil) {
					return
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(Record{}, fmt.Errorf("observe epochs: %w", &recipes.Error{Op: "wait", Path: es.Path(), Err: ctxerr.Ended(ctx)}))
				return
			}
		}
	}
}

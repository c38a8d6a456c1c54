// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// Observe follows the epochs: it yields the newest, if there is one, and each further one when it is claimed. A reader
// that is slower than the claims skips to the newest. A node that was deleted is not yielded; what is claimed next is.
//
// It goes on over disconnections and into further sessions, as the server that the client is connected to sees the node,
// which may be somewhat behind. It ends when the reader stops, or with an error as its last element that says why: ctx's,
// recipes.ErrClosed, that the node holds what is not an epoch, or what a server refused.
//
// It is one watch for all observers of a client.
func (es *Epochs) Observe(ctx context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		var last Record
		for {
			content, err := es.node.Watch(ctx)
			var newest Record
			if err == nil {
				newest, err = es.decode(ctx, content.Data, content.Stat)
			}
			if err != nil {
				yield(Record{}, fmt.Errorf("observe epochs: %w", err))
				return
			}
			if newest.Number != 0 && !newest.same(last) {
				last = newest
				if !yield(newest, nil) {
					return
				}
			}
			select {
			case <-content.Changed:
			case <-ctx.Done():
				yield(Record{}, fmt.Errorf("observe epochs: %w", &recipes.Error{Op: "wait", Path: es.Path(), Err: ended(ctx)}))
				return
			}
		}
	}
}

// ended is why ctx is done: its error, with its cause where that says more.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

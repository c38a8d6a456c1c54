// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/view"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A follower reads the record of a double barrier in one session after the other, and again only when it may have changed.
// It is used by one goroutine.
type follower struct {
	double *Double
	view   *view.View // nil before the first read
}

// close ends the use of the follower.
func (f *follower) close() {
	if f.view != nil {
		f.view.Close()
		f.view = nil
	}
}

// read returns the record, and a channel that is closed when it may have changed. No answer is older than an earlier one.
// The error of a missing record is zk.ErrNoNode.
func (f *follower) read(ctx context.Context) (r record, changed <-chan struct{}, err error) {
	for {
		if f.view == nil {
			if f.view, err = view.New(ctx, f.double.base); err != nil {
				f.view = nil
				return record{}, nil, err
			}
		}
		contents, err := f.view.Read(ctx, []string{recordName})
		if err != nil && f.view.Ended() != nil && ctx.Err() == nil {
			f.close()
			continue
		}
		if err != nil {
			return record{}, nil, err
		}
		fail := func(err error) (record, <-chan struct{}, error) {
			return record{}, nil, &recipes.Error{Op: "read", Path: f.double.record.Path(), Err: err}
		}
		c, found := contents[recordName]
		if !found {
			return fail(zk.ErrNoNode)
		}
		if r, err = decode(c.Data, c.Stat); err != nil {
			return fail(err)
		}
		return r, c.Changed, nil
	}
}

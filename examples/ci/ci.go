// SPDX-License-Identifier: Apache-2.0

// Package ci is a program with tests that run on zktest and on real servers, and workflow.yml, which runs both on GitHub.
// Without the build tag ensemble the tests use zktest; with it, module docker:
//
//	go test ./ci
//	go test -tags ensemble ./ci
package ci

import (
	"context"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// sweep calls begin in each term of this replica, with the token for the term's writes, until ctx is done.
func sweep(ctx context.Context, client *recipes.Client, begin func(token fencing.Token)) error {
	e, err := election.New(client, "/election/sweeper", nil)
	if err != nil {
		return err
	}
	return e.Run(ctx, func(ctx context.Context, term *election.Term) error {
		begin(term.Token())
		<-ctx.Done() // work here
		return context.Cause(ctx)
	})
}

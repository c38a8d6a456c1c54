// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A transfer takes the locks of two accounts, in any order, and each account checks the token of its own lock. A transfer in
// the other direction cannot deadlock with it.
func ExampleAll() {
	ctx := context.Background()
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	savings, err1 := lock.New(client, "/accounts/savings", nil)
	checking, err2 := lock.New(client, "/accounts/checking", nil)
	both, err3 := lock.All(savings, checking)
	if err := errors.Join(err1, err2, err3); err != nil {
		log.Fatal(err)
	}
	var savingsGate, checkingGate fencing.Gate // of the two resources

	err = both.Do(ctx, func(_ context.Context, hold *lock.MultiHold) error { // ctx ends with the first loss
		tokens := hold.Tokens()
		fmt.Println("locks:", len(tokens))
		return errors.Join(savingsGate.Admit(tokens[savings.Path()]), checkingGate.Admit(hold.Claim(checking).Token()))
	})
	fmt.Println("transferred:", err == nil)
	// Output:
	// locks: 2
	// transferred: true
}

// A function that takes the lock itself can be called from work that holds it, if it passes the context on.
func ExampleOptions_reentrant() {
	ctx := context.Background()
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	mu, err := lock.New(client, "/locks/ledger", &lock.Options{Reentrant: true})
	if err != nil {
		log.Fatal(err)
	}
	err = mu.Do(ctx, func(ctx context.Context, outer *lock.Hold) error {
		return mu.Do(ctx, func(_ context.Context, inner *lock.Hold) error {
			fmt.Println("same token:", outer.Token() == inner.Token())
			return nil
		})
	})
	fmt.Println(err)
	// Output:
	// same token: true
	// <nil>
}

// SPDX-License-Identifier: Apache-2.0

package epoch_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/epoch"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Two controllers lead one after the other. A write of the first after its term is rejected as a whole.
func Example() {
	ctx := context.Background()
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lead := func(id string) (*election.Term, *epoch.Epoch) {
		controller, err := election.New(client, "/example/controller", &election.Options{Owner: id})
		if err != nil {
			log.Fatal(err)
		}
		term, err := controller.Campaign(ctx)
		if err != nil {
			log.Fatal(err)
		}
		epochs, err := epoch.New(client, "/example/controller-epoch", &epoch.Options{Owner: id})
		if err != nil {
			log.Fatal(err)
		}
		e, err := epochs.Claim(ctx, term.Claim)
		if err != nil {
			log.Fatal(err)
		}
		return term, e
	}
	term, first := lead("pod-1")
	_, err = first.Commit(ctx, &zk.CreateRequest{Path: "/example/plan", Data: []byte("by pod-1"), Acl: zk.WorldACL(zk.PermAll)})
	fmt.Println("epoch", first.Number(), "wrote:", err)
	if err := term.Resign(ctx); err != nil {
		log.Fatal(err)
	}

	term, second := lead("pod-2")
	_, err = second.Commit(ctx, &zk.SetDataRequest{Path: "/example/plan", Data: []byte("by pod-2"), Version: -1})
	fmt.Println("epoch", second.Number(), "wrote:", err)

	_, err = first.Commit(ctx, &zk.SetDataRequest{Path: "/example/plan", Data: []byte("stale"), Version: -1})
	var stale *epoch.StaleError
	if errors.As(err, &stale) {
		fmt.Printf("epoch %d is rejected: epoch %d belongs to %s\n", stale.Epoch, stale.Newest.Number, stale.Newest.Owner)
	}
	if err := term.Resign(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// epoch 1 wrote: <nil>
	// epoch 2 wrote: <nil>
	// epoch 1 is rejected: epoch 2 belongs to pod-2
}

// SPDX-License-Identifier: Apache-2.0

package choosing

import (
	"context"
	"fmt"
	"log"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Candidates of a controller elect a leader, which keeps its state in ZooKeeper. Update writes it in one transaction with a check
// that the term still lasts, so that a leader that was paused cannot overwrite its successor's state.
func Example_controller() {
	ctx := context.Background()
	client := connect(ctx)
	defer client.Close()

	candidate := func(id string) *election.Term {
		e, err := election.New(client, "/controller", &election.Options{Owner: id})
		if err != nil {
			log.Fatal(err)
		}
		term, err := e.Campaign(ctx)
		if err != nil {
			log.Fatal(err)
		}
		return term
	}
	state, err := recipes.NewNode(client, "/controller-state")
	if err != nil {
		log.Fatal(err)
	}
	assign := func(term *election.Term, broker string) {
		_, err := state.Update(ctx, term.Claim, func([]byte, *zk.Stat, bool) ([]byte, error) { return []byte(broker), nil })
		fmt.Println(term.Owner(), "assigns", broker, "error:", err)
	}
	first := candidate("controller-1")
	assign(first, "broker-1")
	if err := first.Resign(ctx); err != nil {
		log.Fatal(err)
	}
	second := candidate("controller-2")
	assign(second, "broker-2")
	assign(first, "broker-3") // late
	// Output:
	// controller-1 assigns broker-1 error: <nil>
	// controller-2 assigns broker-2 error: <nil>
	// controller-1 assigns broker-3 error: update /controller-state: hold /controller: claim lost: released
}

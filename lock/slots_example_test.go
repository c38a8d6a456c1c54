// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A generator makes ids of the time in milliseconds and the number of a slot, as Snowflake does. The clock of the next holder of the
// number may be behind the last id of the former one. So a generator reserves the time before it uses it, in the
// node of the number, and begins after what is reserved.
type generator struct {
	slot     *lock.Slot
	reserved *recipes.Node
	last     int64 // the time of the last id
	until    int64 // the time before which ids may be made
}

// next returns an id that no generator has made before.
func (g *generator) next(ctx context.Context) (string, error) {
	last, until := max(g.last+1, time.Now().UnixMilli()), g.until
	if last >= until {
		// The write is refused if the slot was lost: then another generator may have the number.
		_, err := g.reserved.Update(ctx, g.slot.Claim, func(data []byte, node *zk.Stat, _ bool) ([]byte, error) {
			if node != nil {
				reserved, err := strconv.ParseInt(string(data), 10, 64)
				if err != nil {
					return nil, err
				}
				last = max(last, reserved)
			}
			until = last + 1000
			return strconv.AppendInt(nil, until, 10), nil
		})
		if err != nil {
			return "", err
		}
	}
	g.last, g.until = last, until // not before Update has returned: what it has not written is not reserved
	return fmt.Sprintf("%d-%d", g.last, g.slot.Number()), nil
}

// Each worker gets a number of its own, for example the worker id of an id generator. A number is used again as soon as its holder
// has released it, was notified of its loss, or has lost its session.
func ExampleSlots() {
	ctx := context.Background()
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	workers, err := lock.NewSlots(client, "/slots/generator", 1024, nil)
	if err != nil {
		log.Fatal(err)
	}

	ids := map[string]bool{}
	for range 3 { // each holder continues after the ids of the former one
		err = workers.Do(ctx, func(ctx context.Context, slot *lock.Slot) error {
			reserved, err := recipes.NewNode(client, fmt.Sprintf("/ids/%d", slot.Number()))
			if err != nil {
				return err
			}
			g := &generator{slot: slot, reserved: reserved}
			for range 1500 {
				id, err := g.next(ctx)
				if err != nil {
					return err
				}
				ids[id] = true
			}
			fmt.Println("worker", slot.Number())
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(len(ids), "ids")
	// Output:
	// worker 0
	// worker 0
	// worker 0
	// 4500 ids
}

// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/schedule"
)

// Each replica of a service runs this. The job is run once a second by one of them.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	s, err := schedule.New(client, "/example/report", schedule.Every(time.Second), nil)
	if err != nil {
		log.Fatal(err)
	}
	var last time.Time
	err = s.Run(ctx, func(ctx context.Context, tick schedule.Tick) error {
		if last.IsZero() {
			fmt.Println("first report")
		} else if tick.Time.After(last) {
			fmt.Println("next report")
			stop()
		}
		last = tick.Time
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// first report
	// next report
}

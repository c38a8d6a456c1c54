// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
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
	s, err := schedule.New(client, "/example/report", schedule.Every(time.Second), &schedule.Options{
		Election: election.Options{Retry: func(err error) bool { // after a failed job, Run continues with a later tick
			fmt.Println(err)
			return true
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	var last time.Time
	err = s.Run(ctx, func(ctx context.Context, tick schedule.Tick) error {
		if last.IsZero() {
			last = tick.Time
			return errors.New("the first report failed")
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
	// the first report failed
	// next report
}

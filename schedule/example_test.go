// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
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
	s, err := schedule.New(client, "/example/report", schedule.Every(time.Second), &schedule.Options{
		Logger: slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: onlyError})),
	})
	if err != nil {
		log.Fatal(err)
	}
	reports := 0
	err = s.Run(ctx, func(ctx context.Context, activation schedule.Activation) error {
		if reports++; reports == 1 {
			return errors.New("disk full")
		}
		fmt.Println("next report")
		stop()
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// msg="scheduled job failed" error="disk full"
	// next report
}

// onlyError removes the attributes that differ from run to run.
func onlyError(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.MessageKey || a.Key == "error" {
		return a
	}
	return slog.Attr{}
}

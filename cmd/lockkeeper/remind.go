// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"time"
)

// A command that waits for a lock service checks after firstReminder, and then every reminderInterval, whether a replica answers:
// the client of the service retries, and logs nothing. The client of an ensemble logs an outage itself.
const (
	firstReminder    = 3 * time.Second
	reminderInterval = 30 * time.Second
)

// remind prints the error of reach, on a goroutine, for as long as a command waits. reach may block until its context is done. The
// returned function ends the goroutine and waits for its end, but not for a write in progress: standard error can block.
func remind(ctx context.Context, command string, reach func(context.Context) error, stderr io.Writer) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for next := time.After(firstReminder); ; {
			select {
			case <-next:
			case <-ctx.Done():
				return
			}
			next = time.After(reminderInterval)
			bounded, done := context.WithTimeoutCause(ctx, firstReminder, &overdue{errNoServer, firstReminder})
			err := reach(bounded)
			done()
			if err == nil || ctx.Err() != nil {
				continue
			}
			written := make(chan struct{})
			go func() {
				defer close(written)
				logError(stderr, "%s: %v", command, err)
			}()
			select {
			case <-written:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-stopped
	}
}

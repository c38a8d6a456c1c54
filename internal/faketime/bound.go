// SPDX-License-Identifier: Apache-2.0

package faketime

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"time"
)

// Limit bounds a test in fake time. Tests wait for hours to show that nothing happens in them, or that long waits end. A day with
// one holder takes some ten seconds.
const Limit = 24 * time.Hour

// Bound ends the process with status 1 after Limit of fake time, unless stop is called before. It names the goroutines of the
// bubble that it is called in. A waiter that is never granted hangs its test: heartbeats let the bubble's clock advance for
// ever, so that nothing else ends the test before go test's own limit, which does not tell where it waits.
func Bound(name string) (stop func()) {
	timer := time.AfterFunc(Limit, func() {
		fmt.Fprintf(os.Stderr, "--- FAIL: %s: not ended after %v of fake time; its goroutines:\n\n%s\n",
			name, Limit, bytes.Join(bubble(), []byte("\n\n")))
		os.Exit(1)
	})
	return func() { timer.Stop() }
}

// bubble returns the stacks of the other goroutines of the caller's bubble.
func bubble() (stacks [][]byte) {
	all := make([]byte, 64<<10)
	for {
		n := runtime.Stack(all, true)
		if n < len(all) {
			all = all[:n]
			break
		}
		all = make([]byte, 2*len(all))
	}
	goroutines := bytes.Split(bytes.TrimSpace(all), []byte("\n\n"))
	own := bubbleOf(goroutines[0])
	for _, g := range goroutines[1:] {
		if bytes.Equal(bubbleOf(g), own) {
			stacks = append(stacks, g)
		}
	}
	return stacks
}

// bubbleOf returns the name of a goroutine's bubble from the first line of its stack, such as
// "goroutine 21 [chan receive (durable), synctest bubble 20]:". It is empty outside of a bubble.
func bubbleOf(goroutine []byte) []byte {
	header, _, _ := bytes.Cut(goroutine, []byte("\n"))
	_, name, _ := bytes.Cut(header, []byte("synctest bubble "))
	name, _, _ = bytes.Cut(name, []byte("]"))
	return name
}

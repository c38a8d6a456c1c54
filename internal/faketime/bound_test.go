// SPDX-License-Identifier: Apache-2.0

package faketime_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
)

// hang is set in the process that hangs.
const hang = "FAKETIME_TEST_HANG"

func TestHungTestNamesTheGoroutinesThatWait(t *testing.T) {
	if os.Getenv(hang) != "" {
		faketime.Test(t, func(*testing.T) {
			go func() {
				for { // as heartbeats do
					time.Sleep(time.Second)
				}
			}()
			neverGranted(make(chan struct{}))
		})
		return
	}
	go func() { <-t.Context().Done() }() // not of the bubble
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=1m")
	cmd.Env = append(cmd.Environ(), hang+"=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", out)
	require.Equal(t, 1, exit.ExitCode(), "%s", out)
	require.Contains(t, string(out), "--- FAIL: "+t.Name()+": not ended after 24h0m0s of fake time; its goroutines:\n")
	require.Contains(t, string(out), "faketime_test.neverGranted(")
}

func neverGranted(granted <-chan struct{}) { <-granted }

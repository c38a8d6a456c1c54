// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
	"github.com/lockkeeper/lockkeeper/proof/torture/register"
)

func TestHoldIsExtendedOnRequest(t *testing.T) {
	library := &failingLibrary{}
	library.works.Store(true)
	r := registersOf(t)
	out, in, over := startWorker(t, library, r.Addr())
	var held register.Holding
	require.Eventually(t, func() bool {
		for _, held = range r.Holdings() {
			if held.Contender != "" {
				return true
			}
		}
		return false
	}, time.Minute, time.Millisecond)
	for n := range 10_000 { // one of these is an attempt that holds, now or soon
		_, err := fmt.Fprintln(in, Extend, n, "1h")
		require.NoError(t, err)
	}
	// Both clients are granted a lock whose hold is extended: releases cease.
	both := func() bool { return len(out.events(t, history.Released))+2 == len(out.events(t, history.Granted)) }
	require.Eventually(t, func() bool {
		before, extended := len(out.events(t, history.Granted)), both()
		clock.Sleep(300 * time.Millisecond)
		return extended && both() && before == len(out.events(t, history.Granted))
	}, time.Minute, time.Millisecond)
	_, err := io.WriteString(in, Extend+" x y\n"+Stop+"\n"+Close+"\n")
	require.NoError(t, err)
	for n := range 10_000 {
		_, err := fmt.Fprintln(in, Extend, n, "0s")
		require.NoError(t, err)
	}
	require.NoError(t, <-over)
}

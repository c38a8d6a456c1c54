// SPDX-License-Identifier: Apache-2.0

package faketime_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
)

func TestTestsRunOnOneProcessorInFakeTime(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	began := time.Now()
	both := make(chan struct{})
	var tests sync.WaitGroup
	for range 2 {
		tests.Go(func() {
			faketime.Test(t, func(t *testing.T) {
				time.Sleep(time.Hour)
				require.Equal(t, 1, runtime.GOMAXPROCS(0))
			})
			<-both
			require.Contains(t, []int{1, 2}, runtime.GOMAXPROCS(0), "the other one may still run")
		})
	}
	close(both)
	tests.Wait()
	require.Equal(t, 2, runtime.GOMAXPROCS(0))
	require.Less(t, time.Since(began), time.Hour)
}

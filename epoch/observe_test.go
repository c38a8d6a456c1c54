// SPDX-License-Identifier: Apache-2.0

package epoch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/epoch"
)

func TestObserverSeesEachNewEpochAcrossSessions(t *testing.T) {
	bubble(t, func(s servers) {
		a, o := s.candidate("a"), s.candidate("o")
		ctx, cancel := context.WithCancelCause(s.Context())
		seen := make(chan epoch.Record)
		var last error
		go func() {
			defer close(seen)
			for newest, err := range o.epochs.Observe(ctx) {
				if err != nil {
					last = err
					return
				}
				seen <- newest
			}
		}()
		synctest.Wait()
		for number := int64(1); number <= 3; number++ {
			term, _ := a.lead()
			newest := <-seen
			require.Equal(s, number, newest.Number)
			require.Equal(s, term.Token(), newest.Token)
			require.NoError(s, term.Resign(s.Context()))
			require.NoError(s, s.Expire(ctx, o.SessionID()))
			time.Sleep(timeout) // the same epoch must not be yielded again
		}
		for range 2 { // while the reader is busy
			term, _ := a.lead()
			require.NoError(s, term.Resign(s.Context()))
		}
		synctest.Wait()
		first := <-seen
		require.Equal(s, int64(4), first.Number, "it was yielded before the reader was busy")
		require.Equal(s, int64(5), (<-seen).Number)

		require.NoError(s, s.Delete(path))
		term, _ := a.lead()
		require.Equal(s, int64(1), (<-seen).Number)
		require.NoError(s, term.Resign(s.Context()))

		why := errors.New("test ends")
		cancel(why)
		_, more := <-seen
		require.False(s, more)
		require.ErrorIs(s, last, why)
		require.ErrorIs(s, last, context.Canceled)
	})
}

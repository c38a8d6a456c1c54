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
	bubble(t, func(s *stage) {
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
			require.NoError(s, s.ensemble.Expire(o.SessionID()))
			time.Sleep(timeout) // and what was seen is not told anew
		}
		for range 2 { // while the reader does not come
			term, _ := a.lead()
			require.NoError(s, term.Resign(s.Context()))
		}
		synctest.Wait()
		first := <-seen
		require.Equal(s, int64(4), first.Number, "it was under way")
		require.Equal(s, int64(5), (<-seen).Number)

		require.NoError(s, s.ensemble.Delete(path))
		term, _ := a.lead()
		require.Equal(s, int64(1), (<-seen).Number)
		require.NoError(s, term.Resign(s.Context()))

		why := errors.New("enough")
		cancel(why)
		_, more := <-seen
		require.False(s, more)
		require.ErrorIs(s, last, why)
		require.ErrorIs(s, last, context.Canceled)
	})
}

// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
)

func TestLookupsOfOneDeadlineShareReadThatFails(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		source := NewSource(func(context.Context) (string, error) {
			reads.Add(1)
			time.Sleep(time.Millisecond)
			return "", errors.New("may not be read")
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var lookups []*Lookup[string]
		for range 1000 {
			lookups = append(lookups, source.Before(ctx))
		}
		<-ctx.Done()
		for _, l := range lookups {
			_, found := l.End()
			require.False(t, found)
		}
		require.EqualValues(t, 1, reads.Load())
	})
}

func TestLookupReadsAgainIfTheOneThatReadWasAbandoned(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		source := NewSource(func(ctx context.Context) (string, error) {
			select {
			case <-time.After(10 * time.Millisecond):
				return "holder", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first := source.Before(ctx)
		second := source.Before(ctx)
		time.Sleep(755 * time.Millisecond) // both have begun at 750 ms, and one of them reads
		first.End()
		<-ctx.Done()
		value, found := second.End()
		require.True(t, found)
		require.Equal(t, "holder", value)
	})
}

// SPDX-License-Identifier: Apache-2.0

package session

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
)

// The error of the connection alone would not say why.
func TestReadThatFailsBecauseTheSessionEndedReportsItsEnd(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s, _ := openTestSession(t)
		_, err := Retry(t.Context(), s, "read", "/a", func(*zk.Conn) (struct{}, error) {
			s.End(ErrAbandoned)
			return struct{}{}, zk.ErrConnectionClosed
		})
		require.ErrorIs(t, err, sentinel.ErrSessionExpired)
		require.ErrorIs(t, err, zk.ErrConnectionClosed)
		require.Equal(t, Unknown, OutcomeOf(err))
	})
}

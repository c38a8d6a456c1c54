// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
)

func TestQueueThatIsLongerThanTheLargestReplyIsAnErrorAndEndsNoOtherClaim(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		opts := s.options()
		opts.MaxReply = 64 << 10
		client := s.connect(opts)
		own := claimed(t, client)
		id := client.SessionID()
		s.create("/long", string(protocol.ParentData(0)))
		for i := range 2000 {
			s.create(fmt.Sprintf("/long/another-contender-lock-%010d", i), "")
		}
		long, err := New(client, "/long", nil)
		require.NoError(t, err)
		_, err = long.Claim(t.Context())
		require.ErrorContains(t, err, "/long: the reply has more than the 65536 bytes of Options.MaxReply")
		time.Sleep(2 * testTimeout)
		require.NoError(t, own.Err())
		require.Equal(t, id, client.SessionID())
		children, err := s.Children("/long")
		require.NoError(t, err)
		require.Len(t, children, 2000, "its own node is deleted")

		all := s.connect(s.options())
		long, err = New(all, "/long", nil)
		require.NoError(t, err)
		_, err = long.Front(t.Context())
		require.NoError(t, err, "a client without the option")
	})
}

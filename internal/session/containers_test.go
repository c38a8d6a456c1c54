// SPDX-License-Identifier: Apache-2.0

package session

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// Where each connection begins another session, a request that closes it can fail with the end of the session. Taken for an
// answer, it would make the client request containers for ever, and lose each session over them.
func TestEndOfTheSessionIsNoAnswerToARequestForAContainer(t *testing.T) {
	var c Containers
	c.record(&wire.Wire{}, zk.ErrSessionExpired)
	require.False(t, c.answered)
	c.record(&wire.Wire{}, zk.ErrNodeExists)
	require.True(t, c.answered)
}

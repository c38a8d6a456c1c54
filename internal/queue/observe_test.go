// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/protocol"
)

func TestLeaseLastsItsTTLAndRevokedSessionItsTimeout(t *testing.T) {
	revoked := &protocol.Revocation{By: "admin", Reason: "maintenance"}
	for name, c := range map[string]struct {
		record  protocol.Record
		session int64
		want    time.Duration
	}{
		"lease":                  {protocol.Record{Format: 1, Kind: protocol.KindLease, TTL: 30_000}, 0, 30 * time.Second},
		"lease without a TTL":    {protocol.Record{Format: 1, Kind: protocol.KindLease}, 0, 0},
		"lease's data elsewhere": {protocol.Record{Format: 1, Kind: protocol.KindLease, TTL: 30_000}, 7, 0},
		"session":                {protocol.Record{Format: 1, Timeout: 10_000}, 7, 0},
		"revoked session":        {protocol.Record{Format: 1, Timeout: 10_000, Revoked: revoked}, 7, 10 * time.Second},
	} {
		data, err := json.Marshal(c.record)
		require.NoError(t, err)
		contender := ContenderOf("x-lock-0000000001", data, &zk.Stat{EphemeralOwner: c.session})
		require.Equal(t, c.want, lifetimeOf(&contender), name)
	}
}

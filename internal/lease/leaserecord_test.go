// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestLeaseRecordComesBackAsItWasWritten(t *testing.T) {
	want := Lease{
		TTL: 30 * time.Second, Held: true, Write: "w", Principal: "p", Owner: "größe 鎖", Reentrant: true,
		Metadata: map[string]string{"job": "1"}, Requests: []string{"a", "b"}, Closed: []string{"c"},
		Revoked: &recipes.Revocation{By: "admin", Reason: "maintenance"},
		created: created{host: "host.example", pid: 7, nonce: "N0NCE", time: time.Unix(1, 0).UTC()},
	}
	data, err := want.encode()
	require.NoError(t, err)
	c := contenderOf("x-lock-0000000001", data, &zk.Stat{Czxid: 9, Version: 3, Mtime: 5000})
	require.Equal(t, &want, c.Lease)
	require.Equal(t, recipes.KindLease, c.Kind)
	require.Equal(t, want.TTL, c.TTL)
	require.True(t, c.Held)
	require.Equal(t, want.Revoked, c.Revoked)
	require.Equal(t, int32(3), c.Version)
	require.Equal(t, time.UnixMilli(5000), c.Written)
}

// A TTL that is no TTL would end the lease immediately.
func TestRecordWithoutTTLIsNoLease(t *testing.T) {
	for _, ttl := range []int64{0, -1, math.MaxInt64} {
		data, err := json.Marshal(protocol.Record{Format: 1, Kind: string(recipes.KindLease), TTL: ttl})
		require.NoError(t, err)
		c := contenderOf("x-lock-0000000001", data, &zk.Stat{})
		require.Nil(t, c.Lease)
	}
}

// Another library can store any data in its node: observers would delete it while it is held.
func TestNodeOfSessionIsNoLeaseWhateverItsData(t *testing.T) {
	data, err := (&Lease{TTL: time.Second, Held: true}).encode()
	require.NoError(t, err)
	c := contenderOf("x-lock-0000000001", data, &zk.Stat{EphemeralOwner: 7})
	require.Nil(t, c.Lease)
	require.Empty(t, c.Kind)
}

func TestRevocationPreservesTheRestOfTheRecord(t *testing.T) {
	encoder, err := protocol.NewEncoder("pod-7", "host.example", 7)
	require.NoError(t, err)
	before := encoder.Encode("N0NCE", 10*time.Second, time.Now())
	data, err := revoke(before, recipes.Revocation{By: "admin", Reason: "maintenance"})
	require.NoError(t, err)
	want := protocol.DecodeRecord(before)
	want.Revoked = &protocol.Revocation{By: "admin", Reason: "maintenance"}
	require.Equal(t, want, protocol.DecodeRecord(data))

	data, err = revoke([]byte(`{"format":1,"nonce":"N","later":[1]}`), recipes.Revocation{})
	require.NoError(t, err)
	require.Contains(t, string(data), `"later":[1]`)
}

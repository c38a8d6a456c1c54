// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
)

func TestQueueOptionsThatCannotBeMeantAreNamed(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		opts := s.options()
		opts.Namespace, opts.Owner = "/team-a", "pod-7"
		client := s.connect(opts)
		for path, why := range map[string]string{"": `path "" is empty`, "ledger": `path "ledger" is not absolute`, "/ledger/": `path "/ledger/"`} {
			_, err := New(client, path, nil)
			require.ErrorContains(t, err, why)
		}
		_, err := New(client, "/ledger", &Options{ReleaseTimeout: -time.Minute})
		require.ErrorContains(t, err, "release timeout -1m0s is negative")
		_, err = New(client, "/ledger", &Options{Owner: strings.Repeat("o", 4097)})
		require.ErrorContains(t, err, "owner label of 4097 bytes is over the limit of 4096")
		_, err = New(nil, "/ledger", nil)
		require.ErrorContains(t, err, "client is nil")

		q, err := New(client, "/ledger", nil)
		require.NoError(t, err)
		require.Equal(t, "/team-a/ledger", q.Path())
		require.Equal(t, "pod-7", protocol.DecodeRecord(q.encoder.Encode("n", time.Second, time.Now())).Owner, "the client's")
		q, err = New(client, "/ledger", &Options{Owner: "migration"})
		require.NoError(t, err)
		require.Equal(t, "migration", protocol.DecodeRecord(q.encoder.Encode("n", time.Second, time.Now())).Owner, "its own")
	})
}

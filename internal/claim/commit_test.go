// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/zkpath"
)

// opsError returns the error of parseOps for the operations.
func opsError(ops []any) error {
	_, err := parseOps("", "", ops)
	return err
}

func TestTransactionOverTheServersLimitIsRefusedWithTheLimit(t *testing.T) {
	big := make([]byte, zkpath.MaxTransaction)
	acl := zk.WorldACL(zk.PermAll)
	for name, ops := range map[string][]any{
		"create":       {&zk.CreateRequest{Path: "/a", Data: big, Acl: acl}},
		"set":          {&zk.SetDataRequest{Path: "/a", Data: big}},
		"sum of parts": {&zk.SetDataRequest{Path: "/a", Data: big[:1<<19]}, &zk.SetDataRequest{Path: "/b", Data: big[:1<<19]}},
	} {
		require.ErrorContains(t, opsError(ops), "over the limit of 1048575 for a transaction", name)
	}
	many := make([]any, 1<<15)
	for i := range many {
		many[i] = &zk.DeleteRequest{Path: "/a"}
	}
	require.ErrorContains(t, opsError(many), "over the limit", "what stands around the paths counts as well")
}

// A request that was not answered before ctx ended may be sent after Commit has returned.
func TestTransactionKeepsItsDataWhenTheCallerChangesItsOwn(t *testing.T) {
	data, acl := []byte("old"), zk.WorldACL(zk.PermAll)
	parsed, err := parseOps("", "", []any{&zk.CreateRequest{Path: "/a", Data: data, Acl: acl}, &zk.SetDataRequest{Path: "/a", Data: data}})
	require.NoError(t, err)
	data[0], acl[0].Perms = 'x', 0
	require.Equal(t, &zk.CreateRequest{Path: "/a", Data: []byte("old"), Acl: zk.WorldACL(zk.PermAll)}, parsed[0].request)
	require.Equal(t, &zk.SetDataRequest{Path: "/a", Data: []byte("old")}, parsed[1].request)
}

func TestTransactionWithinTheLimitPasses(t *testing.T) {
	require.NoError(t, opsError(nil))
	require.NoError(t, opsError([]any{
		&zk.CreateRequest{Path: "/a", Data: make([]byte, 1<<19), Acl: zk.WorldACL(zk.PermAll)},
		&zk.SetDataRequest{Path: "/a", Data: make([]byte, 1<<18)},
		&zk.DeleteRequest{Path: "/a"},
		&zk.CheckVersionRequest{Path: "/a", Version: 3},
	}))
}

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

func TestTransactionWithinTheLimitPasses(t *testing.T) {
	require.NoError(t, opsError(nil))
	require.NoError(t, opsError([]any{
		&zk.CreateRequest{Path: "/a", Data: make([]byte, 1<<19), Acl: zk.WorldACL(zk.PermAll)},
		&zk.SetDataRequest{Path: "/a", Data: make([]byte, 1<<18)},
		&zk.DeleteRequest{Path: "/a"},
		&zk.CheckVersionRequest{Path: "/a", Version: 3},
	}))
}

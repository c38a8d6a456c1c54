// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestReleaseTakesLockFromHolderWithToken(t *testing.T) {
	ensemble := startServers(t, nil)
	held := take(t, clientOf(t, ensemble, "a"), "/ledger")
	status, stdout, stderr := runInProcess(t, ensemble, "release", "/ledger", "--token", held.Token().String(), "--reason", "it hangs", "--force")
	require.Equal(t, statusOK, status, stderr)
	require.Regexp(t, `^released /ledger: node .*-lock-\d+, token `+held.Token().String()+`, owner "a", reason "it hangs"\n$`, stdout)
	require.Contains(t, stderr, "only a resource that checks the token is safe")
	select {
	case <-held.Done():
		require.ErrorIs(t, held.Err(), recipes.ErrDeleted)
	case <-time.After(time.Minute):
		t.Fatal("the holder was not notified")
	}
	requireContenders(t, ensemble, "/ledger", 0)
}

func TestReleaseOfAnotherTokenDeletesNothing(t *testing.T) {
	ensemble := startServers(t, nil)
	a, b := clientOf(t, ensemble, "a"), clientOf(t, ensemble, "b")
	held := take(t, a, "/ledger")
	enqueue(t, b, "/ledger")
	requireContenders(t, ensemble, "/ledger", 2)
	later := (held.Token() + 1).String()
	status, stdout, stderr := runInProcess(t, ensemble, "release", "/ledger", "--token", later, "--reason", "r", "--force")
	require.Equal(t, statusFailed, status)
	require.Empty(t, stdout)
	require.Equal(t, "lockkeeper: release /ledger: token "+later+` is not in front: "a" is, with token `+held.Token().String()+"\n", stderr)
	require.NoError(t, held.Check(t.Context()))
	requireContenders(t, ensemble, "/ledger", 2)

	status, _, stderr = runInProcess(t, ensemble, "release", "/free", "--token", later, "--reason", "r", "--force")
	require.Equal(t, statusFailed, status)
	require.Contains(t, stderr, "release /free: no contender: there is nothing to release\n")
}

func TestReleaseNeedsTokenReasonAndForce(t *testing.T) {
	ensemble := startServers(t, nil)
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "PATH is missing"},
		{[]string{"/a"}, "--token is missing"},
		{[]string{"/a", "--token", "1"}, "--reason is missing"},
		{[]string{"/a", "--token", "1", "--reason", "r"}, "add --force"},
		{[]string{"/a", "--token", "x", "--reason", "r", "--force"}, "--token: "},
		{[]string{"/a", "--token", "1", "--reason", "r", "--force", "--mode", "later"}, `--mode "later" is neither "safe" nor "now"`},
		{[]string{"/a", "--token", "1", "--reason", "r", "--force", "--mode", "safe"}, "--mode safe needs --url"},
	} {
		status, _, stderr := runInProcess(t, ensemble, append([]string{"release"}, test.args...)...)
		require.Equal(t, statusUsage, status, test.want)
		require.Contains(t, stderr, test.want)
	}
}

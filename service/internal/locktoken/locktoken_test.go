// SPDX-License-Identifier: Apache-2.0

package locktoken_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/service/internal/locktoken"
)

var (
	older = strings.Repeat("0a", 32)
	newer = strings.Repeat("1b", 32)
)

var ticket = lease.Ticket{
	Path: "/team/orders", Principal: "billing", Owner: "worker-1", Node: "1z-abc-lock-0000000001", Request: "h4sh",
}

func keys(t *testing.T, rows ...string) *locktoken.Keys {
	t.Helper()
	parsed, err := locktoken.ParseKeys([]byte(strings.Join(rows, "\n")))
	require.NoError(t, err)
	return parsed
}

func TestTokenIsVerifiedForItsOwnerAndLock(t *testing.T) {
	k := keys(t, older)
	verified, err := k.Verify(k.Make(ticket), ticket.Path, ticket.Principal, ticket.Owner)
	require.NoError(t, err)
	require.Equal(t, ticket, verified)
}

func TestForeignTokenIsRefused(t *testing.T) {
	k := keys(t, older)
	token := k.Make(ticket)
	for _, c := range []struct{ path, principal, owner string }{
		{"/team/other", ticket.Principal, ticket.Owner},
		{ticket.Path, "sales", ticket.Owner},
		{ticket.Path, ticket.Principal, "worker-2"},
		{ticket.Path, "billingw", "orker-1"}, // the same bytes, divided otherwise
	} {
		_, err := k.Verify(token, c.path, c.principal, c.owner)
		require.ErrorIs(t, err, locktoken.ErrInvalid, c)
	}
}

func TestAlteredTokenIsRefused(t *testing.T) {
	k := keys(t, older)
	token := k.Make(ticket)
	for i := range token {
		altered := []byte(token)
		altered[i] ^= 1
		_, err := k.Verify(string(altered), ticket.Path, ticket.Principal, ticket.Owner)
		require.ErrorIs(t, err, locktoken.ErrInvalid, "byte %d", i)
	}
	for _, bad := range []string{"", ".", "..", "...", token + ".", token[:len(token)-1], token + "A", token + "\n", token + "\r\n", token[:len(token)-2] + "\n" + token[len(token)-2:]} {
		_, err := k.Verify(bad, ticket.Path, ticket.Principal, ticket.Owner)
		require.ErrorIs(t, err, locktoken.ErrInvalid, bad)
	}
}

func TestTokenOutlivesRotationOfKeysUntilItsKeyIsRemoved(t *testing.T) {
	token := keys(t, older).Make(ticket)
	verify := func(k *locktoken.Keys) error {
		_, err := k.Verify(token, ticket.Path, ticket.Principal, ticket.Owner)
		return err
	}
	require.NoError(t, verify(keys(t, older, newer)))
	require.NoError(t, verify(keys(t, newer, older)))
	require.ErrorIs(t, verify(keys(t, newer)), locktoken.ErrInvalid)
	require.NotEqual(t, token, keys(t, newer, older).Make(ticket), "the first key makes tokens")
}

func TestBadKeysAreRefusedWithoutQuotingThem(t *testing.T) {
	for _, rows := range [][]string{{""}, {"# only a comment"}, {"zz" + older}, {older[:62]}, {older, newer, older}} {
		_, err := locktoken.ParseKeys([]byte(strings.Join(rows, "\n")))
		require.Error(t, err)
		require.NotContains(t, err.Error(), older[:8])
	}
	keys(t, "# rotated in May", "", older+" ")
}

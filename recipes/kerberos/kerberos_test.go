// SPDX-License-Identifier: Apache-2.0

package kerberos

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/krberror"
	"github.com/stretchr/testify/require"
)

func noExchange([]byte) ([]byte, error) { panic("nothing is exchanged without a ticket") }

func TestUnreachableKDCIsNoRefusal(t *testing.T) {
	conf, err := config.NewFromString("[libdefaults]\n default_realm = EXAMPLE.ORG\n udp_preference_limit = 1\n" +
		"[realms]\n EXAMPLE.ORG = {\n  kdc = 127.0.0.1:1\n }\n")
	require.NoError(t, err)
	logins := 0
	m := New(func() (*client.Client, error) {
		logins++
		return client.NewWithPassword("worker", "EXAMPLE.ORG", "secret", conf), nil
	}, nil)
	for range 2 {
		err = m.Authenticate(t.Context(), "zk1", noExchange)
		require.ErrorContains(t, err, "GSSAPI, server zookeeper/zk1: ")
		require.NotErrorIs(t, err, zk.ErrAuthFailed)
	}
	require.Equal(t, 2, logins, "a failure makes the next call log in again")
	m.Close()
	require.ErrorContains(t, m.Authenticate(t.Context(), "zk1", noExchange), "mechanism is closed")
	require.Equal(t, 2, logins)
}

func TestAnswerOfTheKDCIsARefusal(t *testing.T) {
	require.ErrorIs(t, refusal(krberror.New(krberror.KRBMsgError, "client not found")), zk.ErrAuthFailed)
	require.NotErrorIs(t, refusal(krberror.New(krberror.NetworkingError, "refused")), zk.ErrAuthFailed)
	require.NotErrorIs(t, refusal(errors.New("other")), zk.ErrAuthFailed)
}

func TestUnreadableFilesAreNamed(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "krb5.conf")
	require.NoError(t, os.WriteFile(conf, []byte("[libdefaults]\n default_realm = EXAMPLE.ORG\n"), 0o600))
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		login Login
		why   string
	}{
		{Keytab(missing, missing, "worker"), "krb5.conf: "},
		{Keytab(conf, missing, "worker"), "keytab: "},
		{Cache(missing, missing), "krb5.conf: "},
		{Cache(conf, missing), "credential cache: "},
	} {
		err := New(c.login, nil).Authenticate(t.Context(), "zk1", noExchange)
		require.ErrorContains(t, err, c.why)
	}
}

func TestSourceInUseIsDestroyedAfterItsLastUse(t *testing.T) {
	logins := 0
	m := New(func() (*client.Client, error) {
		logins++
		return client.NewWithPassword("worker", "EXAMPLE.ORG", "secret", config.New()), nil
	}, nil)
	one, err := m.use()
	require.NoError(t, err)
	two, err := m.use()
	require.NoError(t, err)
	require.Same(t, one, two)
	m.unuse(one, true)
	require.Equal(t, "worker", two.Credentials.UserName(), "the second use continues")
	next, err := m.use()
	require.NoError(t, err)
	require.NotSame(t, two, next)
	m.unuse(two, false)
	require.Empty(t, two.Credentials.UserName())
	m.Close()
	require.Equal(t, "worker", next.Credentials.UserName())
	m.unuse(next, false)
	require.Empty(t, next.Credentials.UserName())
	require.Equal(t, 2, logins)
}

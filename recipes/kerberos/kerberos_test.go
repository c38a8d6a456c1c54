// SPDX-License-Identifier: Apache-2.0

package kerberos

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// counted returns a mechanism of a client with that configuration, and the number of its logins.
func counted(conf *config.Config) (m *Mechanism, logins *int) {
	logins = new(int)
	return New(func() (*client.Client, error) {
		*logins++
		return client.NewWithPassword("worker", "EXAMPLE.ORG", "secret", conf), nil
	}, nil), logins
}

func TestUnreachableKDCIsNoRefusal(t *testing.T) {
	conf, err := config.NewFromString("[libdefaults]\n default_realm = EXAMPLE.ORG\n udp_preference_limit = 1\n" +
		"[realms]\n EXAMPLE.ORG = {\n  kdc = 127.0.0.1:1\n }\n")
	require.NoError(t, err)
	m, logins := counted(conf)
	for range 2 {
		err = m.Authenticate(t.Context(), "zk1", noExchange)
		require.ErrorContains(t, err, "GSSAPI, server zookeeper/zk1: ")
		require.NotErrorIs(t, err, zk.ErrAuthFailed)
	}
	require.Equal(t, 2, *logins, "a login that failed is made again")
	m.Close()
	require.ErrorContains(t, m.Authenticate(t.Context(), "zk1", noExchange), "mechanism is closed")
	require.Equal(t, 2, *logins)
}

// A server or a KDC that does not answer in time would otherwise cost the tickets for all other servers.
func TestTicketsAreKeptUntilTheyAreRefused(t *testing.T) {
	m, logins := counted(config.New())
	defer m.Close()
	for _, c := range []struct {
		err    error
		logins int
	}{
		{nil, 1},
		{&unreachedError{context.DeadlineExceeded, server}, 1},
		{fmt.Errorf("GSSAPI: %w", &unreachedError{io.EOF, server}), 1},
		{nil, 1},
		{zk.ErrAuthFailed, 2},
		{refusal(krberror.New(krberror.KRBMsgError, "expired")), 3},
		{errors.New("server's reply: it answers another request"), 4},
	} {
		s, err := m.use("zookeeper/zk1")
		require.NoError(t, err)
		m.gotTicket(s)
		m.unuse(s, c.err)
		next, err := m.use("zookeeper/zk1")
		require.NoError(t, err)
		m.unuse(next, nil)
		require.Equal(t, c.logins, *logins, "%v", c.err)
	}
}

// gokrb5 changes the list of KDCs of its client while it asks one.
func TestCallsAskTheKDCOneAfterTheOther(t *testing.T) {
	m, _ := counted(config.New())
	defer m.Close()
	s, err := m.use("zookeeper/zk1")
	require.NoError(t, err)
	s.asking <- struct{}{} // another call
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = m.Authenticate(ctx, "zk1", noExchange)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "another call asks the KDC")
	require.Same(t, s, m.current, "the other call may get the ticket")
	m.unuse(s, nil)
}

// The KDC may have moved, and the files may say where.
func TestLoginIsMadeAnewBesideTicketsThatAreStillUsed(t *testing.T) {
	m, logins := counted(config.New())
	defer m.Close()
	first, err := m.use("zookeeper/zk1")
	require.NoError(t, err)
	m.gotTicket(first)
	m.unuse(first, refusal(krberror.New(krberror.NetworkingError, "refused")))
	for range 2 {
		next, err := m.use("zookeeper/zk2")
		require.NoError(t, err)
		require.NotSame(t, first, next)
		m.unuse(next, refusal(krberror.New(krberror.NetworkingError, "refused")))
		require.Same(t, first, m.current, "its tickets are kept")
		require.Equal(t, "worker", first.Credentials.UserName())
	}
	next, err := m.use("zookeeper/zk2")
	require.NoError(t, err)
	m.gotTicket(next)
	m.unuse(next, nil)
	require.Same(t, next, m.current)
	require.Empty(t, first.Credentials.UserName())
	require.Equal(t, 4, *logins)
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
	m, logins := counted(config.New())
	one, err := m.use("zookeeper/zk1")
	require.NoError(t, err)
	two, err := m.use("zookeeper/zk1")
	require.NoError(t, err)
	require.Same(t, one, two)
	m.unuse(one, zk.ErrAuthFailed)
	require.Equal(t, "worker", two.Credentials.UserName(), "the second use continues")
	next, err := m.use("zookeeper/zk1")
	require.NoError(t, err)
	require.NotSame(t, two, next)
	m.unuse(two, nil)
	require.Empty(t, two.Credentials.UserName())
	m.Close()
	require.Equal(t, "worker", next.Credentials.UserName())
	m.unuse(next, nil)
	require.Empty(t, next.Credentials.UserName())
	require.Equal(t, 2, *logins)
}

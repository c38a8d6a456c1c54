// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/testcert"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestClientAndServersAuthenticateEachOtherByTLS(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		authority, other := testcert.NewAuthority(t), testcert.NewAuthority(t)
		servers := []string{"zktest-1", "zktest-2", "zktest-3"}
		s := startEnsemble(t, zktest.Options{
			Servers: 3, InMemory: true, Users: map[string]string{"bob": "secret"}, RequireSASL: true,
			TLS: &tls.Config{
				Certificates: []tls.Certificate{authority.Issue("server", servers...)},
				ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool(),
			},
		})
		connect := func(config *tls.Config) (*recipes.Client, error) {
			ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
			defer cancel()
			opts := s.optionsOf(recipes.DigestMD5("bob", "secret"))
			opts.TLS = config
			return recipes.Connect(ctx, s.Addrs(), opts)
		}
		client, err := connect(&tls.Config{RootCAs: authority.Pool(), Certificates: []tls.Certificate{authority.Issue("client")}})
		require.NoError(t, err)
		defer client.Close()
		claim := claimed(t, client)
		s.link.Reset()
		time.Sleep(time.Second)
		require.NoError(t, claim.Check(t.Context()))

		_, err = connect(&tls.Config{RootCAs: other.Pool(), Certificates: []tls.Certificate{authority.Issue("client")}})
		var unknown *tls.CertificateVerificationError
		require.ErrorAs(t, err, &unknown)
		require.ErrorContains(t, err, "zktest-1:2181: TLS handshake: ")
		for _, refused := range []*tls.Config{
			{RootCAs: authority.Pool()},
			{RootCAs: authority.Pool(), Certificates: []tls.Certificate{other.Issue("client")}},
			nil,
		} {
			_, err = connect(refused)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		require.Len(t, s.Sessions(), 1)
	})
}

func TestNodesOfCertificateAreClosedToOtherClients(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		authority := testcert.NewAuthority(t)
		// An ensemble that verifies the certificates of clients, or takes them unverified.
		start := func(policy tls.ClientAuthType) func(name, id string) *recipes.Client {
			s := startEnsemble(t, zktest.Options{InMemory: true, TLS: &tls.Config{
				Certificates: []tls.Certificate{authority.Issue("server", "zktest-1")}, ClientAuth: policy, ClientCAs: authority.Pool(),
			}})
			return func(name, id string) *recipes.Client {
				opts := s.options()
				opts.TLS = &tls.Config{RootCAs: authority.Pool(), Certificates: []tls.Certificate{authority.Issue(name)}}
				opts.ACL = []zk.ACL{{Scheme: "x509", ID: id, Perms: zk.PermAll}}
				return s.connect(opts)
			}
		}
		connect := start(tls.RequireAndVerifyClientCert)
		worker, other := connect("worker", "CN=worker"), connect("other", "CN=other")
		claim := claimed(t, worker)
		_, err := newQueue(t, other, nil).Claim(t.Context())
		require.ErrorIs(t, err, zk.ErrNoAuth)
		elsewhere, err := New(connect("third", "no name"), "/elsewhere", nil)
		require.NoError(t, err)
		_, err = elsewhere.Claim(t.Context())
		require.ErrorIs(t, err, zk.ErrInvalidACL)
		require.NoError(t, newQueue(t, worker, nil).Release(t.Context(), claim))
		again := claimed(t, connect("worker", "CN=worker"))
		require.NoError(t, again.Check(t.Context()), "another process with a certificate for the name")

		connect = start(tls.RequireAnyClientCert)
		_, err = newQueue(t, connect("worker", "CN=worker"), nil).Claim(t.Context())
		require.ErrorIs(t, err, zk.ErrNoAuth, "any client can have such a certificate")
	})
}

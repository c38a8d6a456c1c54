// SPDX-License-Identifier: Apache-2.0

// Package secured contains only tests: clients of real servers that refuse some. They require SASL, and TLS with
// certificates of both sides, or serve reads only.
package secured

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	tclog "github.com/testcontainers/testcontainers-go/log"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/testcert"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestMain(m *testing.M) {
	tclog.SetDefault(tclog.NewNoopLogger()) // it logs ten lines about the engine
	goleak.VerifyTestMain(m)
}

// patience bounds each call.
const patience = 30 * time.Second

// securePort is the port on which the servers speak TLS.
const securePort = "2281"

// serverName is the name in the server's certificate.
const serverName = "zookeeper.example.org"

// A server is one real server that serves only clients that log in.
type server struct {
	t         *testing.T
	authority *testcert.Authority // of its certificate, and of those that it accepts
	plain     string              // its address without TLS
	secure    string              // its address with TLS
	ensemble  *docker.Ensemble
}

// start starts a server with a JAAS configuration and further files. Clients must log in by SASL, and have a certificate on the
// secure port.
func start(t *testing.T, jaas string, files map[string][]byte, properties map[string]string) *server {
	t.Helper()
	authority := testcert.NewAuthority(t)
	opts := &docker.Options{
		Properties: map[string]string{
			"java.security.auth.login.config": "{files}/jaas.conf",
			"zookeeper.authProvider.1":        "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
			"zookeeper.serverCnxnFactory":     "org.apache.zookeeper.server.NettyServerCnxnFactory",
		},
		Config: []string{
			"enforce.auth.enabled=true",
			"enforce.auth.schemes=sasl",
			"secureClientPort=" + securePort,
			"ssl.keyStore.location={files}/server.pem",
			"ssl.trustStore.location={files}/authority.pem",
			"ssl.clientAuth=need",
		},
		Files: map[string][]byte{
			"jaas.conf":     []byte(jaas),
			"server.pem":    testcert.PEM(t, authority.Issue("server", serverName)),
			"authority.pem": authority.PEM(),
		},
	}
	for name, content := range files {
		opts.Files[name] = content
	}
	for name, value := range properties {
		opts.Properties[name] = value
	}
	s := &server{t: t, authority: authority, ensemble: docker.Start(t, opts)}
	s.plain = s.ensemble.Addrs()[0]
	host, _, err := net.SplitHostPort(s.plain)
	require.NoError(t, err)
	s.secure = net.JoinHostPort(host, securePort)
	return s
}

// connect returns a client of the server at an address, or the error of Connect.
func (s *server) connect(addr string, opts recipes.Options) (*recipes.Client, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	opts.Logger = slog.New(slog.DiscardHandler)
	opts.SessionTimeout = 6 * time.Second
	client, err := recipes.Connect(ctx, []string{addr}, &opts)
	if err == nil {
		s.t.Cleanup(func() { client.Close() })
	}
	return client, err
}

// tls returns a client's configuration, with a certificate of an authority for the name worker.
func (s *server) tls(by *testcert.Authority) *tls.Config {
	return &tls.Config{
		RootCAs: s.authority.Pool(), ServerName: serverName, Certificates: []tls.Certificate{by.Issue("worker")},
	}
}

// lock acquires a lock, or returns the error.
func (s *server) lock(client *recipes.Client, path string) (*lock.Hold, error) {
	s.t.Helper()
	mu, err := lock.New(client, path, nil)
	require.NoError(s.t, err)
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	return mu.Lock(ctx)
}

// A network closes the connections of a client.
type network struct {
	mu    sync.Mutex // guards conns
	conns []net.Conn
}

func (n *network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.conns = append(n.conns, conn)
	}
	return conn, err
}

// reset closes all connections, and returns how many there were since the last reset.
func (n *network) reset() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, conn := range n.conns {
		_ = conn.Close() // it may have ended
	}
	count := len(n.conns)
	n.conns = nil
	return count
}

// requireHeldAcrossConnections requires that a lock of the client is held while its connections break.
func (s *server) requireHeldAcrossConnections(addr string, opts recipes.Options) {
	s.t.Helper()
	var n network
	opts.Dial = n.dial
	client, err := s.connect(addr, opts)
	require.NoError(s.t, err)
	hold, err := s.lock(client, "/held/"+opts.ACL[0].ID)
	require.NoError(s.t, err)
	acl, _, err := client.Conn().GetACL(hold.Path())
	require.NoError(s.t, err)
	require.Equal(s.t, opts.ACL, acl)
	for range 3 {
		require.Positive(s.t, n.reset(), "it has connected again")
		require.NoError(s.t, hold.Check(s.t.Context()))
	}
	require.NoError(s.t, hold.Err())
	require.NoError(s.t, hold.Unlock(s.t.Context()))
}

const digestJAAS = `Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  user_bob="sécret, with \"quotes\""
  user_ann="other";
};
`

func TestServerServesOnlyClientsThatLogIn(t *testing.T) {
	t.Parallel() // mostly the tests wait
	s := start(t, digestJAAS, nil, nil)
	bob := recipes.DigestMD5("bob", `sécret, with "quotes"`)
	allOf := func(scheme, id string) []zk.ACL { return []zk.ACL{{Scheme: scheme, ID: id, Perms: zk.PermAll}} }

	t.Run("lock is held across connections", func(t *testing.T) {
		s.requireHeldAcrossConnections(s.plain, recipes.Options{SASL: bob, ACL: allOf("sasl", "bob")})
	})
	t.Run("other user has no access to nodes of the first", func(t *testing.T) {
		first, err := s.connect(s.plain, recipes.Options{SASL: bob, ACL: allOf("sasl", "bob")})
		require.NoError(t, err)
		hold, err := s.lock(first, "/only-bob")
		require.NoError(t, err)
		second, err := s.connect(s.plain, recipes.Options{SASL: recipes.DigestMD5("ann", "other")})
		require.NoError(t, err)
		_, err = s.lock(second, "/only-bob")
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.NoError(t, hold.Unlock(t.Context()))
	})
	t.Run("wrong credentials are an immediate error", func(t *testing.T) {
		// Not with the password of ann: ZooKeeper 3.8.0 compares the password of an unknown user with the last login's.
		for _, login := range [][2]string{{"eve", "unknown"}, {"bob", "wrong"}} {
			user, password := login[0], login[1]
			began := time.Now()
			_, err := s.connect(s.plain, recipes.Options{SASL: recipes.DigestMD5(user, password)})
			require.ErrorIs(t, err, zk.ErrAuthFailed)
			require.ErrorContains(t, err, s.plain+`: SASL: DIGEST-MD5, user "`+user+`"`)
			require.Less(t, time.Since(began), patience/2)
		}
	})
	t.Run("client without credentials is refused at its first request", func(t *testing.T) {
		client, err := s.connect(s.plain, recipes.Options{})
		require.NoError(t, err)
		began := time.Now()
		_, err = s.lock(client, "/anonymous")
		require.ErrorIs(t, err, zk.ErrAuthFailed)
		require.Less(t, time.Since(began), patience/2)
	})
	t.Run("credentials of another scheme do not suffice", func(t *testing.T) {
		client, err := s.connect(s.plain, recipes.Options{Auth: []recipes.Auth{recipes.Digest("bob", "secret")}})
		require.NoError(t, err)
		_, err = s.lock(client, "/digest")
		require.ErrorIs(t, err, zk.ErrAuthFailed)
	})
	t.Run("lock is held across connections by TLS", func(t *testing.T) {
		s.requireHeldAcrossConnections(s.secure, recipes.Options{
			SASL: bob, TLS: s.tls(s.authority), ACL: allOf("x509", "CN=worker"),
		})
	})
	t.Run("peers that are not trusted", s.testUntrustedPeers)
}

// testUntrustedPeers requires that clients and servers by TLS refuse each other where one does not trust the other.
func (s *server) testUntrustedPeers(t *testing.T) {
	other := testcert.NewAuthority(t)
	worker := []tls.Certificate{s.authority.Issue("worker")}
	for name, c := range map[string]struct {
		addr   string
		config *tls.Config
		why    string
	}{
		"authority of the server":   {s.secure, &tls.Config{RootCAs: other.Pool(), ServerName: serverName, Certificates: worker}, "certificate signed by unknown authority"},
		"name of the server":        {s.secure, &tls.Config{RootCAs: s.authority.Pool(), ServerName: "other.example.org", Certificates: worker}, "certificate is valid for " + serverName},
		"address of the server":     {s.secure, &tls.Config{RootCAs: s.authority.Pool(), Certificates: worker}, "cannot validate certificate for"},
		"authority of the client":   {s.secure, s.tls(other), "tls: "},
		"client has no certificate": {s.secure, &tls.Config{RootCAs: s.authority.Pool(), ServerName: serverName}, "tls: "},
		"client does not speak TLS": {s.secure, nil, "handshake"},
		"server does not speak TLS": {s.plain, s.tls(s.authority), "TLS handshake"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var err error
			for wait := time.Second / 2; wait < 2*patience; wait *= 2 { // on a busy machine, a handshake may last longer
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				_, err = recipes.Connect(ctx, []string{c.addr}, &recipes.Options{
					SASL: recipes.DigestMD5("ann", "other"), TLS: c.config, Logger: slog.New(slog.DiscardHandler),
				})
				cancel()
				require.ErrorIs(t, err, context.DeadlineExceeded)
				if strings.Contains(err.Error(), c.why) {
					break
				}
			}
			require.ErrorContains(t, err, c.addr)
			require.ErrorContains(t, err, c.why)
		})
	}
}

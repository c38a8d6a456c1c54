// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/testcert"
)

// extended is one real server with all that the other one lacks: TLS, users, TTL nodes and a node whose counter is nearly at its
// maximum. Each of them changes only the answers to requests that use it. The first test that needs it starts it.
var extended extendedServer

type extendedServer struct {
	once          sync.Once
	address       string
	secureAddress string // with TLS
	issuer        *issuer
	end           func() error // nil if it was not started
}

// server returns the server, without TLS.
func (e *extendedServer) server(t *testing.T) server {
	t.Helper()
	e.once.Do(func() { e.start(t) })
	require.NotEmpty(t, e.address, "it did not start in an earlier test")
	return realAt(t, e.address)
}

func (e *extendedServer) start(t *testing.T) {
	t.Helper()
	authority := testcert.NewAuthority(t)
	by := &issuer{pool: authority.Pool(), server: authority.Issue("server", serverName)}
	for _, subject := range subjects {
		by.clients = append(by.clients, authority.IssueSubject(subject))
	}
	dir, port := t.TempDir(), freePort(t)
	var args []string
	for name, content := range map[string][]byte{
		"jaas.conf": []byte(jaas), "server.pem": testcert.PEM(t, by.server), "authority.pem": authority.PEM(),
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		args = append(args, "-file", name+"="+path)
	}
	for _, property := range []string{
		"extendedTypesEnabled=true",
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
	} {
		args = append(args, "-property", "zookeeper."+property)
	}
	addr, stop, err := startEnsemble(append(args, "-property", "java.security.auth.login.config={files}/jaas.conf",
		"-config", "secureClientPort="+port, "-config", "ssl.clientAuth=want",
		"-config", "ssl.keyStore.location={files}/server.pem", "-config", "ssl.trustStore.location={files}/authority.pem",
		"-counter", fmt.Sprintf("%s=%d", preset, presetNext))...)
	require.NoError(t, err)
	e.end = stop
	host, _, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	secure := net.JoinHostPort(host, port)
	require.Eventually(t, func() bool { // ZooKeeper opens it after the other one, on which it serves
		conn, err := net.Dial("tcp", secure)
		return err == nil && conn.Close() == nil
	}, maxWait, 10*time.Millisecond)
	e.address, e.secureAddress, e.issuer = addr, secure, by
}

// stop ends the server if it was started.
func (e *extendedServer) stop() error {
	if e.end == nil {
		return nil
	}
	return e.end()
}

// freePort returns a port of this machine: a server in a container can have any.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

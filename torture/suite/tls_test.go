// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// certificate returns a self-signed certificate for 127.0.0.1, and a pool that contains it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// terminator terminates TLS in front of a server, as a sidecar does, until the test ends. It returns its address.
func (s *env) terminator(server *docker.Server, cert tls.Certificate) string {
	s.t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { passOn(ctx, client, server.Addr()) })
		}
	})
	s.t.Cleanup(func() {
		cancel()
		_ = listener.Close() // ends the loop
		running.Wait()
	})
	return listener.Addr().String()
}

// passOn copies between a client and a server until one of them closes its connection or ctx ends.
func passOn(ctx context.Context, client net.Conn, addr string) {
	defer func() { _ = client.Close() }() // it may be closed already
	server, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(way[0], way[1]) // an error ends the connection, too
			ended <- struct{}{}
		}()
	}
	left := 2
	select {
	case <-ended:
		left--
	case <-ctx.Done():
	}
	_, _ = client.Close(), server.Close()
	for range left {
		<-ended
	}
}

func TestTLSVerifiesTheServer(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	cert, pool := certificate(t)
	addr := s.terminator(s.ensemble.Servers()[0], cert)

	client := s.connect(recipes.Options{TLS: &tls.Config{RootCAs: pool}}, addr)
	hold := s.lock(s.mutex(client, "lock"))
	require.NoError(t, hold.Check(s.ctx))
	s.unlock(hold)
	client.Close()

	ctx, cancel := context.WithTimeout(s.ctx, 2*time.Second)
	defer cancel()
	_, err := recipes.Connect(ctx, []string{addr}, &recipes.Options{TLS: &tls.Config{RootCAs: x509.NewCertPool()}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var unknown *tls.CertificateVerificationError
	require.ErrorAs(t, err, &unknown)
	require.ErrorContains(t, err, addr)
}

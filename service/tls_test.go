// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/testcert"
	"github.com/lockkeeper/lockkeeper/service"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// An authority signs certificates.
type authority struct {
	*testcert.Authority
	t    *testing.T
	file string // its own certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{testcert.NewAuthority(t), t, filepath.Join(t.TempDir(), "ca.pem")}
	require.NoError(t, os.WriteFile(a.file, a.PEM(), 0o600))
	return a
}

// sign returns the files of a certificate for a name, and of its key. They are one file.
func (a *authority) sign(name string) (certificate, key string) {
	a.t.Helper()
	file := filepath.Join(a.t.TempDir(), "cert-and-key.pem")
	require.NoError(a.t, os.WriteFile(file, testcert.PEM(a.t, a.Issue(name, "127.0.0.1")), 0o600))
	return file, file
}

// present makes the client of a replica trust a, and present a certificate that by signed for a name.
func (r *replica) present(a, by *authority, name string) {
	r.t.Helper()
	config := &tls.Config{RootCAs: a.Pool(), ClientSessionCache: tls.NewLRUClientSessionCache(0)}
	if name != "" {
		config.Certificates = []tls.Certificate{by.Issue(name)}
	}
	r.client = &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
	r.t.Cleanup(r.client.CloseIdleConnections)
}

func TestCertificateOrBearerTokenIdentifiesTheCaller(t *testing.T) {
	t.Parallel()
	ours, others := newAuthority(t), newAuthority(t)
	certificate, key := ours.sign("server")
	principalsFile, keysFile := credentials(t)
	r := start(t, service.Config{
		Servers: zktest.Start(t, nil).Addrs(), Principals: principalsFile, TokenKeys: keysFile,
		TLSCert: certificate, TLSKey: key, ClientCA: ours.file,
	})
	r.present(ours, ours, "team")
	held := r.post("", orders+"/acquire", request("w1", "r1", "")).is(200, "")
	r.post("sales", orders+"/acquire", request("w1", "r2", "")).is(403, "FORBIDDEN") // the token counts
	r.present(ours, ours, "stranger")
	r.post("", orders+"/acquire", request("w1", "r3", "")).is(401, "UNAUTHENTICATED")
	r.present(ours, ours, "")
	r.post("", orders+"/renew", proof(held)).is(401, "UNAUTHENTICATED")
	r.post("team", orders+"/renew", proof(held)).is(200, "")
	r.present(ours, others, "team")
	_, err := r.try(t.Context(), "", http.MethodPost, orders+"/renew", proof(held))
	require.Error(t, err, "a certificate of another authority is refused")
}

func TestChangedAuthoritiesAreTrustedWithoutRestart(t *testing.T) {
	t.Parallel()
	server, old, next := newAuthority(t), newAuthority(t), newAuthority(t)
	certificate, key := server.sign("server")
	authorities := filepath.Join(t.TempDir(), "client-ca.pem")
	trust := func(files ...string) {
		var content []byte
		for _, file := range files {
			one, err := os.ReadFile(file)
			require.NoError(t, err)
			content = append(content, one...)
		}
		require.NoError(t, os.WriteFile(authorities, content, 0o600))
	}
	trust(old.file)
	principalsFile, keysFile := credentials(t)
	r := start(t, service.Config{
		Servers: zktest.Start(t, nil).Addrs(), Principals: principalsFile, TokenKeys: keysFile,
		TLSCert: certificate, TLSKey: key, ClientCA: authorities,
	})
	admitted := func() bool {
		r.client.CloseIdleConnections() // the next one may resume the session of this one
		answer, err := r.try(t.Context(), "", http.MethodGet, orders, "")
		return err == nil && answer.status == http.StatusNotFound // there is no lock yet
	}
	r.present(server, next, "team")
	require.False(t, admitted(), "no authority has signed the certificate")
	trust(old.file, next.file)
	require.Eventually(t, admitted, patience, 20*time.Millisecond)
	r.present(server, old, "team")
	require.True(t, admitted())
	conn, err := tls.Dial("tcp", strings.TrimPrefix(r.url, "https://"), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	require.NoError(t, err)
	require.Equal(t, "h2", conn.ConnectionState().NegotiatedProtocol)
	require.NoError(t, conn.Close())
	trust(next.file)
	require.Eventually(t, func() bool { return !admitted() }, patience, 20*time.Millisecond)
	require.NoError(t, os.WriteFile(authorities, []byte("no certificate"), 0o600))
	r.present(server, next, "team")
	require.True(t, admitted(), "an invalid file changes nothing")
}

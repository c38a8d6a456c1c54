// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/service"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// An authority signs certificates.
type authority struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	file        string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, file: filepath.Join(t.TempDir(), "ca.pem")}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "authority"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	require.NoError(t, err)
	a.certificate, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return a
}

// sign returns the files of a certificate for a name, and of its key.
func (a *authority) sign(name string) (certificate, key string) {
	a.t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), Subject: pkix.Name{CommonName: name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, a.certificate, secret.Public(), a.key)
	require.NoError(a.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	require.NoError(a.t, err)
	certificate, key = filepath.Join(a.t.TempDir(), "cert.pem"), filepath.Join(a.t.TempDir(), "key.pem")
	require.NoError(a.t, os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(a.t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return certificate, key
}

// present makes the client of a replica trust a, and present a certificate that by signed for a name.
func (r *replica) present(a, by *authority, name string) {
	r.t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AddCert(a.certificate)
	if name != "" {
		pair, err := tls.LoadX509KeyPair(by.sign(name))
		require.NoError(r.t, err)
		config.Certificates = []tls.Certificate{pair}
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

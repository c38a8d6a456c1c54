// SPDX-License-Identifier: Apache-2.0

// Package testcert issues certificates for tests.
package testcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An Authority issues certificates, which are valid for an hour.
type Authority struct {
	tb          testing.TB
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority returns an authority that no other program trusts.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	a := &Authority{tb: tb}
	a.certificate, a.key = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

// sign returns a certificate and its key. The authority's own certificate is the first.
func (a *Authority) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.tb, err)
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(a.tb, err)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.certificate, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	require.NoError(a.tb, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(a.tb, err)
	return certificate, key
}

// Issue returns a certificate for a name and for hosts: addresses, or names of DNS. It serves clients and
// servers.
func (a *Authority) Issue(name string, hosts ...string) tls.Certificate {
	a.tb.Helper()
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	certificate, key := a.sign(template)
	return tls.Certificate{Certificate: [][]byte{certificate.Raw}, PrivateKey: key, Leaf: certificate}
}

// IssueSubject returns a certificate of a client for a subject with any parts.
func (a *Authority) IssueSubject(subject pkix.RDNSequence) tls.Certificate {
	a.tb.Helper()
	raw, err := asn1.Marshal(subject)
	require.NoError(a.tb, err)
	certificate, key := a.sign(&x509.Certificate{
		RawSubject: raw, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return tls.Certificate{Certificate: [][]byte{certificate.Raw}, PrivateKey: key, Leaf: certificate}
}

// Pool returns the authority's certificate, for clients and servers that trust it.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// PEM returns the authority's certificate, for a truststore.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// PEM returns an issued certificate and its key, for a keystore.
func PEM(tb testing.TB, issued tls.Certificate) []byte {
	tb.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(issued.PrivateKey)
	require.NoError(tb, err)
	return append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issued.Certificate[0]})...)
}

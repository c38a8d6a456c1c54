// SPDX-License-Identifier: Apache-2.0

package principal_test

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/service/internal/limit"
	"github.com/lockkeeper/lockkeeper/service/internal/principal"
)

var limits = limit.Limits{Rate: 10, Burst: 20, Waiters: 30, KeyBytes: 512, BodyBytes: 1 << 16, MaxTTL: time.Hour}

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func directory(t *testing.T) *principal.Directory {
	t.Helper()
	d, err := principal.Parse(fmt.Appendf(nil, `{"principals": [
		{"name": "billing", "tokens": [%q, %q], "namespaces": ["billing", "shared"], "roles": ["client"],
		 "limits": {"waiters": 5, "maxTtlMillis": 60000}},
		{"name": "ops", "subjects": ["CN=ops,O=acme", "spiffe://acme/ops"], "namespaces": ["*"], "roles": ["admin"]}
	]}`, hash("old token"), hash("new token")), limits)
	require.NoError(t, err)
	return d
}

func with(authorization ...string) *http.Request {
	return &http.Request{Header: http.Header{"Authorization": authorization}}
}

func TestBearerTokenIdentifiesPrincipal(t *testing.T) {
	d := directory(t)
	for _, header := range []string{"Bearer old token", "bearer new token"} {
		p, err := d.Identify(with(header))
		require.NoError(t, err)
		require.Equal(t, "billing", p.Name)
		require.True(t, p.Has(principal.Client))
		require.False(t, p.Has(principal.Admin))
		require.True(t, p.MayUse("shared"))
		require.False(t, p.MayUse("sales"))
		require.Equal(t, 5, p.Limits.Waiters)
		require.Equal(t, time.Minute, p.Limits.MaxTTL)
		require.Equal(t, limits.Burst, p.Limits.Burst, "limits that are not set are the service's")
	}
}

func TestBadCredentialsIdentifyNoPrincipal(t *testing.T) {
	d := directory(t)
	for _, r := range []*http.Request{
		{},
		with(""), with("Bearer"), with("Bearer "), with("Bearer wrong"), with("Basic b2xkIHRva2Vu"), with("old token"),
		with("Bearer " + hash("old token")), // the file's content is no credential
		with("Bearer old token", "Bearer old token"),
		{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Subject: pkix.Name{CommonName: "ops"}}}}},
		{TLS: verified(&x509.Certificate{Subject: pkix.Name{CommonName: "ops"}})},
	} {
		_, err := d.Identify(r)
		require.ErrorIs(t, err, principal.ErrUnknown, r.Header)
	}
}

func verified(certificate *x509.Certificate) *tls.ConnectionState {
	return &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{certificate}}}
}

func TestVerifiedCertificateIdentifiesPrincipal(t *testing.T) {
	d := directory(t)
	uri, err := url.Parse("spiffe://acme/ops")
	require.NoError(t, err)
	for _, certificate := range []*x509.Certificate{
		{Subject: pkix.Name{CommonName: "ops", Organization: []string{"acme"}}},
		{URIs: []*url.URL{uri}},
	} {
		p, err := d.Identify(&http.Request{TLS: verified(certificate)})
		require.NoError(t, err)
		require.Equal(t, "ops", p.Name)
		require.True(t, p.MayUse("anything"))

		both := with("Bearer wrong")
		both.TLS = verified(certificate)
		_, err = d.Identify(both)
		require.ErrorIs(t, err, principal.ErrUnknown, "a wrong token is refused whatever the certificate")
	}
}

func TestDevelopmentServesOnlyRequestsToThisMachine(t *testing.T) {
	d := principal.Development(limits)
	for _, host := range []string{"127.0.0.1:8080", "127.0.0.1", "localhost:8080", "[::1]:8080", "[::1]"} {
		p, err := d.Identify(&http.Request{Host: host})
		require.NoError(t, err, host)
		require.True(t, p.MayUse("any"))
	}
	for _, host := range []string{"", "rebound.example:8080", "10.0.0.1", "127.0.0.1.example"} {
		_, err := d.Identify(&http.Request{Host: host})
		require.ErrorIs(t, err, principal.ErrUnknown, host)
	}
}

func TestRelativeURIOfCertificateIsNoSubject(t *testing.T) {
	uri, err := url.Parse("CN=ops,O=acme")
	require.NoError(t, err)
	_, err = directory(t).Identify(&http.Request{TLS: verified(&x509.Certificate{
		Subject: pkix.Name{CommonName: "intern"}, URIs: []*url.URL{uri},
	})})
	require.ErrorIs(t, err, principal.ErrUnknown)
}

func TestInvalidFileIsRefused(t *testing.T) {
	entry := func(fields string) string {
		return `{"principals": [{"name": "a", "tokens": ["` + hash("t") + `"], "namespaces": ["n"], "roles": ["client"], ` + fields + `}]}`
	}
	for content, want := range map[string]string{
		``:                                             "decode",
		`{}`:                                           "no principals",
		entry(`"limits": {}`) + "x":                    "after the document",
		entry(`"role": "admin"`):                       "unknown field",
		entry(`"name": "a b"`):                         "name",
		entry(`"roles": ["root"]`):                     "unknown role",
		entry(`"roles": []`):                           "needs a role",
		entry(`"namespaces": ["a/b"]`):                 "namespace",
		entry(`"tokens": ["s3cret"]`):                  "SHA-256",
		entry(`"subjects": ["x", "x"]`):                "twice",
		entry(`"limits": {"burst": -1}`):               "burst is negative",
		entry(`"limits": {"keyBytes": 513}`):           "keyBytes",
		entry(`"limits": {"maxTtlMillis": 3600001}`):   "maxTtlMillis",
		entry(`"limits": {"bodyBytes": 0}`):            "bodyBytes",
		entry(`"limits": {"requestsPerSecond": -0.1}`): "requestsPerSecond",
	} {
		_, err := principal.Parse([]byte(content), limits)
		require.ErrorContains(t, err, want, content)
		require.NotContains(t, err.Error(), "s3cret")
	}
	_, err := principal.Parse([]byte(entry(`"limits": {"burst": 1}`)), limits)
	require.NoError(t, err)
}

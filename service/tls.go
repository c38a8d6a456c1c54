// SPDX-License-Identifier: Apache-2.0

package service

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"

	"github.com/lockkeeper/lockkeeper/service/internal/reload"
)

// certificate is the server's, with its key.
type certificate = tls.Certificate

// openTLS reads the certificates of a configuration.
func (f *files) openTLS(c *Config) (err error) {
	if c.TLSCert == "" {
		return nil
	}
	f.certificate, err = reload.Open(c.TLSCert, func(content []byte) (*certificate, error) {
		key, err := os.ReadFile(c.TLSKey)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(content, key)
		return &pair, err
	})
	if err != nil || c.ClientCA == "" {
		return err
	}
	f.clientCA, err = reload.Open(c.ClientCA, func(content []byte) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(content) {
			return nil, errors.New("there is no certificate in it")
		}
		return pool, nil
	})
	return err
}

// tlsConfig returns the configuration of the server, nil without TLS. A client needs no certificate: it can present a
// bearer token. A certificate that it presents must be valid.
func (f *files) tlsConfig() *tls.Config {
	if f.certificate == nil {
		return nil
	}
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"}, // the server adds them to this configuration, not to a connection's
		GetCertificate: func(*tls.ClientHelloInfo) (*certificate, error) { return f.certificate.Get(), nil },
	}
	if f.clientCA != nil {
		config.ClientAuth = tls.VerifyClientCertIfGiven
		config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
			now := config.Clone()
			now.ClientCAs = f.clientCA.Get()
			return now, nil
		}
	}
	return config
}

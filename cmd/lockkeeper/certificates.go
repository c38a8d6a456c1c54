// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

// certificates has the flags of TLS connections. Without any of them, servers of an ensemble are connected to without TLS.
type certificates struct {
	prefix        string // of the names of the flags
	ca, cert, key string // files
}

// addFlags adds the flags. peer is what the connections are made to.
func (c *certificates) addFlags(flags *pflag.FlagSet, prefix, peer string) {
	c.prefix = "--" + prefix
	flags.StringVar(&c.ca, prefix+"ca", "", "connect to "+peer+" with TLS; `file` of the authorities to trust in place of the\nsystem's")
	flags.StringVar(&c.cert, prefix+"cert", "", "connect to "+peer+" with TLS; `file` of the certificate to present, read for\neach connection")
	flags.StringVar(&c.key, prefix+"key", "", "`file` of the key of that certificate")
}

// check returns an error for wrong usage. It reads no file.
func (c *certificates) check() error {
	if (c.cert == "") != (c.key == "") {
		return usageErrorf("%scert and %skey are needed together", c.prefix, c.prefix)
	}
	return nil
}

// config returns the configuration of the connections, nil if no flag is set.
func (c *certificates) config() (*tls.Config, error) {
	if c.ca == "" && c.cert == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.ca != "" {
		content, err := os.ReadFile(c.ca)
		if err != nil {
			return nil, usageErrorf("%sca: %w", c.prefix, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(content) {
			return nil, usageErrorf("%sca: read %s: %w", c.prefix, c.ca, errors.New("there is no certificate in it"))
		}
	}
	if c.cert == "" {
		return config, nil
	}
	// A mistake is reported now. A session can outlive the certificate that it began with.
	if _, err := c.pair(nil); err != nil {
		return nil, usageErrorf("%w", err)
	}
	config.GetClientCertificate = c.pair
	return config, nil
}

// pair reads the certificate and its key.
func (c *certificates) pair(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, fmt.Errorf("%scert, %skey: %w", c.prefix, c.prefix, err)
	}
	return &pair, nil
}

// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/connectstring"
	"github.com/lockkeeper/lockkeeper/service/internal/key"
	"github.com/lockkeeper/lockkeeper/service/internal/limit"
)

// A Config is the configuration of one replica. The zero value of a field means its default, if it has one.
type Config struct {
	// Listen is the address to serve on. The default is 127.0.0.1:8080.
	Listen string

	// Dev gives every caller the permission to do everything, and runs an ensemble in memory if Servers is empty:
	// for development, on a loopback address only. Servers must be on loopback addresses, too, and the fields that
	// concern credentials and keys must be empty.
	Dev bool

	// Servers of the ensemble: host:port each, or a connect string.
	Servers []string
	// Root is the node below which each namespace has a node. The default is /lockkeeper.
	Root string
	// SessionTimeout of the replica's own session, on which no lease depends. The default is 10 s.
	SessionTimeout time.Duration
	// ZooKeeperAuth is a file with the replica's credential, user:password. The nodes of leases can then be
	// written only with it.
	ZooKeeperAuth string
	// ZooKeeperTLS, if not nil, configures TLS connections to the servers of ZooKeeper.
	ZooKeeperTLS *tls.Config

	// TLSCert and TLSKey are the files of the server's certificate, in PEM. Both are read again when the
	// certificate changes.
	TLSCert, TLSKey string
	// ClientCA is a file of the certificates of authorities. A client that presents a certificate of one of
	// them is identified by it. It is read again when it changes, for new connections.
	ClientCA string

	// Principals is the file of the callers, in JSON. It is read again when it changes.
	Principals string
	// TokenKeys is the file of the keys that sign lock tokens: one, or two during a rotation, as rows of at
	// least 64 hexadecimal digits. All replicas share it. It is read again when it changes.
	TokenKeys string
	// Audit is the file that audit events are appended to. The default is none.
	Audit string
	// AuditRenewals adds renewals that were carried out to the audit. Refused ones are always in it.
	AuditRenewals bool
	// Reopen makes the replica open the audit file again, for each value that it receives: after a
	// rotation that has renamed the file. May be nil.
	Reopen <-chan os.Signal

	// MaxTTL is the longest lease. The default, and the maximum, is 1 h.
	MaxTTL time.Duration
	// Keys is the number of keys of a namespace that can have a node at the same time. The default, and the maximum, is
	// 100,000. Keys over 64 bytes, as encoded, count as several.
	Keys int
	// Rate, Burst and Waiters bound each principal without its own limits: requests a second,
	// requests at the same time, and waits and event streams at the same time. The defaults are 100, 200
	// and 1000.
	Rate    float64
	Burst   int
	Waiters int

	// Logger receives a record of each request, and what an operator may need to know. The default is
	// slog.Default.
	Logger *slog.Logger
	// Version is shown in the OpenAPI document.
	Version string
	// Middleware, if not nil, returns the handler that serves in place of next, which serves all requests: for spans, for
	// instance, the middleware of OpenTelemetry's otelhttp, which continues the traces of callers by their traceparent header.
	// The path of a request contains the names of its namespace and key; the Pattern is the route's when next has returned. It
	// must pass on the methods of the http.ResponseWriter, such as Unwrap, since event streams flush and set deadlines.
	Middleware func(next http.Handler) http.Handler
	// Started is called once, with the URL of the service, when it serves. May be nil.
	Started func(url string)

	_ struct{}
}

// maxBody is far more than any valid request needs.
const maxBody = 64 << 10

// maxKeys bounds the answer in which ZooKeeper lists the keys of a namespace: 5 MB, with keys of 40 bytes, since long ones count
// as several.
const maxKeys = 100_000

// Check returns what is wrong with the configuration, nil if nothing is. It reads no file. Run calls it.
func (c *Config) Check() error {
	c = c.withDefaults()
	host, _, err := net.SplitHostPort(c.Listen)
	switch {
	case err != nil:
		return fmt.Errorf("listen %q is not host:port", c.Listen)
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return errors.New("a TLS certificate and its key are needed together")
	case c.ClientCA != "" && c.TLSCert == "":
		return errors.New("client certificates need TLS: give the server a certificate")
	case c.MaxTTL < time.Second || c.MaxTTL > time.Hour:
		return fmt.Errorf("longest TTL %v is not between 1s and 1h", c.MaxTTL)
	case c.Keys < 1 || c.Keys > maxKeys:
		return fmt.Errorf("%d keys of a namespace are not between 1 and %d", c.Keys, maxKeys)
	case c.Rate < 0 || c.Burst < 0 || c.Waiters < 0:
		return errors.New("a limit is negative")
	case !strings.HasPrefix(c.Root, "/") || c.Root == "/" || strings.HasSuffix(c.Root, "/"):
		return fmt.Errorf("root %q is not the path of a node below /", c.Root)
	}
	if c.Dev {
		return c.checkDev(host)
	}
	switch {
	case len(c.Servers) == 0:
		return errors.New("the servers of the ensemble are missing")
	case c.Principals == "":
		return errors.New("the file of principals is missing: only the development mode serves callers without credentials")
	case c.TokenKeys == "":
		return errors.New("the file of token keys is missing: all replicas must share one")
	}
	return connectstring.Check(c.Servers)
}

func (c *Config) checkDev(host string) error {
	if !isLoopback(host) {
		return fmt.Errorf("listen %s may be reachable from other machines: the development mode knows no credentials, and serves a loopback address only", c.Listen)
	}
	if c.Principals != "" || c.TokenKeys != "" || c.ZooKeeperAuth != "" || c.ZooKeeperTLS != nil || c.TLSCert != "" {
		return errors.New("the development mode takes no credentials, keys and certificates")
	}
	if len(c.Servers) == 0 {
		return nil
	}
	servers, _, err := connectstring.Parse(c.Servers)
	if err != nil {
		return err
	}
	for _, server := range servers {
		if host, _, err := net.SplitHostPort(server); err != nil || !isLoopback(host) {
			return fmt.Errorf("server %s is not on a loopback address: the development mode gives every caller its locks", server)
		}
	}
	return nil
}

// isLoopback reports whether host is a loopback address or "localhost". It does not resolve names.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// withDefaults returns a copy in which fields that have a default are set.
func (c *Config) withDefaults() *Config {
	d := *c
	d.Listen = cmp.Or(c.Listen, "127.0.0.1:8080")
	d.Root = cmp.Or(c.Root, "/lockkeeper")
	d.MaxTTL = cmp.Or(c.MaxTTL, time.Hour)
	d.Keys = cmp.Or(c.Keys, maxKeys)
	d.Rate, d.Burst, d.Waiters = cmp.Or(c.Rate, 100), cmp.Or(c.Burst, 200), cmp.Or(c.Waiters, 1000)
	d.Version = cmp.Or(c.Version, "unknown")
	if d.Logger == nil {
		d.Logger = slog.Default()
	}
	return &d
}

func (c *Config) limits() limit.Limits {
	return limit.Limits{
		Rate: c.Rate, Burst: c.Burst, Waiters: c.Waiters, KeyBytes: key.MaxBytes, BodyBytes: maxBody, MaxTTL: c.MaxTTL,
	}
}

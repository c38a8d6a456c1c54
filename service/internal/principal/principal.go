// SPDX-License-Identifier: Apache-2.0

// Package principal knows the callers of the service: how each is recognised, and what it may do.
package principal

import (
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/service/internal/limit"
)

// A Role is a set of operations.
type Role string

// The roles. A principal can have both. Both may read.
const (
	Client Role = "client" // acquires, renews and releases
	Admin  Role = "admin"  // releases by force
)

// A Principal is one caller, or one team of callers.
type Principal struct {
	Name       string
	Namespaces []string // "*" stands for all
	Roles      []Role
	Limits     limit.Limits
}

// Has reports whether the principal has a role.
func (p *Principal) Has(role Role) bool { return slices.Contains(p.Roles, role) }

// MayUse reports whether the principal may use a namespace.
func (p *Principal) MayUse(namespace string) bool {
	return slices.Contains(p.Namespaces, namespace) || slices.Contains(p.Namespaces, "*")
}

// ErrUnknown is returned for a request without credentials, or with credentials that no principal has.
var ErrUnknown = errors.New("no valid credentials")

// maxToken bounds what a stranger makes the service hash.
const maxToken = 4 << 10

// A Directory finds the principal of a request. It does not change.
type Directory struct {
	byToken   map[[sha256.Size]byte]*Principal
	bySubject map[string]*Principal
	everyone  *Principal // without credentials; nil except in development
}

// Development returns a directory in which every request to a loopback address is of one principal that may do
// everything.
func Development(limits limit.Limits) *Directory {
	return &Directory{everyone: &Principal{
		Name: "dev", Namespaces: []string{"*"}, Roles: []Role{Client, Admin}, Limits: limits,
	}}
}

// Identify returns the principal of a request: by its bearer token, or else by its client certificate. A bearer
// token that is not valid is refused even if the certificate is valid: the caller meant to use it.
func (d *Directory) Identify(r *http.Request) (*Principal, error) {
	if d.everyone != nil {
		// A web page can make its own name resolve to this machine, and send requests through its reader's browser.
		if !isLoopback(r.Host) {
			return nil, ErrUnknown
		}
		return d.everyone, nil
	}
	if header := r.Header.Values("Authorization"); len(header) > 0 {
		scheme, token, _ := strings.Cut(header[0], " ")
		if len(header) > 1 || !strings.EqualFold(scheme, "Bearer") || token == "" {
			return nil, ErrUnknown
		}
		if len(token) > maxToken {
			return nil, ErrUnknown
		}
		// The map compares hashes: the time that it takes says nothing about a token.
		if p := d.byToken[sha256.Sum256([]byte(token))]; p != nil {
			return p, nil
		}
		return nil, ErrUnknown
	}
	// Only a chain that the server verified counts, not a certificate that was merely presented.
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		for _, name := range names(r.TLS.VerifiedChains[0][0]) {
			if p := d.bySubject[name]; p != nil {
				return p, nil
			}
		}
	}
	return nil, ErrUnknown
}

// isLoopback reports whether a request's host, with or without a port, names the machine itself.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && address.IsLoopback()
}

// names returns the names by which a certificate can be listed: its URIs, such as SPIFFE ids, and its subject. A URI
// without a scheme is ignored, because it can look like the subject of another certificate.
func names(certificate *x509.Certificate) []string {
	var names []string
	for _, uri := range certificate.URIs {
		if uri.IsAbs() {
			names = append(names, uri.String())
		}
	}
	return append(names, certificate.Subject.String())
}

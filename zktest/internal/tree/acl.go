// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
	"github.com/lockkeeper/lockkeeper/zktest/internal/x500"
)

// permits reports whether one of the identities has one of the permissions.
func permits(acl []wire.ACL, perms int32, ids []Identity) bool {
	if slices.ContainsFunc(ids, func(id Identity) bool { return id.Scheme == "super" }) {
		return true
	}
	for _, a := range acl {
		if a.Perms&perms == 0 {
			continue
		}
		if a.Scheme == "world" && a.ID == "anyone" {
			return true
		}
		for _, id := range ids {
			if id.Scheme == a.Scheme && matches(a, id.ID) {
				return true
			}
		}
	}
	return false
}

func matches(a wire.ACL, id string) bool {
	switch a.Scheme {
	case "digest", "x509":
		return a.ID == id
	case "ip":
		return inNetwork(id, a.ID)
	case "sasl":
		return a.ID == id || id == "super"
	}
	return false
}

// resolve returns the ACL that a request's ACL stands for: without duplicates, and with
// the session's own credentials for the scheme "auth". It reports false if an entry is
// invalid, or none is left. A server in its default configuration knows the schemes
// world, auth, digest and ip, but not those that need configuration: sasl and x509, which the Tree can
// have.
func (d *decision) resolve(acl []wire.ACL) ([]wire.ACL, bool) {
	if len(acl) == 0 {
		return nil, false
	}
	out := make([]wire.ACL, 0, len(acl))
	seen := make(map[wire.ACL]bool) // not a search of the slice: a frame has room for very many entries
	for _, a := range acl {
		if seen[a] {
			continue
		}
		seen[a] = true
		switch {
		case a.Scheme == "world" && a.ID == "anyone", a.Scheme == "digest" && validDigest(a.ID), a.Scheme == "ip" && validNetwork(a.ID),
			a.Scheme == "sasl" && d.tree.SASL && validPrincipal(a.ID), a.Scheme == "x509" && d.tree.X509 && x500.Valid(a.ID):
			out = append(out, a)
		case a.Scheme == "auth":
			before := len(out)
			for _, id := range d.identities {
				if id.Scheme == "digest" || id.Scheme == "sasl" || id.Scheme == "x509" {
					out = append(out, wire.ACL{Perms: a.Perms, Scheme: id.Scheme, ID: id.ID})
				}
			}
			if len(out) == before {
				return nil, false
			}
		default:
			return nil, false
		}
	}
	return out, true
}

// validDigest reports whether a digest id has two parts, as Java's split counts them: it
// drops trailing empty ones.
func validDigest(id string) bool { return strings.Count(strings.TrimRight(id, ":"), ":") == 1 }

// validPrincipal reports whether a sasl id is a user, or a principal of Kerberos: user@REALM or
// user/host@REALM.
func validPrincipal(id string) bool { return !strings.Contains(id, "@") || principal.MatchString(id) }

var principal = regexp.MustCompile(`^[^/@]*(/[^/@]*)?@[^/@]*$`)

func validNetwork(expr string) bool {
	_, _, ok := network(expr)
	return ok
}

func inNetwork(address, expr string) bool {
	base, bits, ok := network(expr)
	ip, isIP := ipv4(address)
	shift := 32 - bits
	return ok && isIP && uint64(base)>>shift == uint64(ip)>>shift
}

// network parses an address with an optional prefix length.
func network(expr string) (base uint32, bits int, ok bool) {
	address, length, masked := strings.Cut(expr, "/")
	base, ok = ipv4(address)
	if !ok || !masked {
		return base, 32, ok
	}
	bits, err := strconv.Atoi(length)
	return base, bits, err == nil && bits >= 0 && bits <= 32
}

// ipv4 parses an address as ZooKeeper does: it accepts plus signs and leading zeros, and
// no IPv6, so that a client with an IPv6 address matches no entry.
func ipv4(address string) (uint32, bool) {
	parts := strings.Split(address, ".")
	if len(parts) != 4 {
		return 0, false
	}
	var ip uint32
	for _, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 || n > 255 {
			return 0, false
		}
		ip = ip<<8 | uint32(n)
	}
	return ip, true
}

var digest = regexp.MustCompile(`:.*`)

// masked returns the ACL without the digests of passwords, for clients that may not
// change it.
func masked(acl []wire.ACL) []wire.ACL {
	out := slices.Clone(acl)
	for i := range out {
		if out[i].Scheme == "digest" {
			out[i].ID = digest.ReplaceAllString(out[i].ID, ":x")
		}
	}
	return out
}

// An Identity is one identity of a session: its address, {"ip", "127.0.0.1"}, or a
// credential, {"digest", "user:base64 of the SHA-1"}. The permissions of world:anyone need
// none. An identity of the scheme "super" has all permissions.
type Identity struct{ Scheme, ID string }

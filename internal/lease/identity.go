// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"
)

// hintLength is the length of a hint, in base-32 digits.
const hintLength = 10

var digits = base32.StdEncoding.WithPadding(base32.NoPadding)

// digest returns base-32 digits of a hash over parts, each with its length.
func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return strings.ToLower(digits.EncodeToString(h.Sum(nil)))
}

// hint returns the part of a node's name that stands for the request. Others may have the same:
// the record decides.
func (r *Request) hint() string { return digest(r.Principal, r.Owner, r.RequestID)[:hintLength] }

// shared ends the hash of a request that may share its lease, so that a ticket shows without a
// read how the lease is released.
const shared = "+"

// hashLength is the length of a hash, in base-32 digits.
const hashLength = 26

// hash returns the name of the request in a record: 128 bits of its RequestID's hash.
func (r *Request) hash() string {
	h := digest(r.RequestID)[:hashLength]
	if r.Reentrant {
		h += shared
	}
	return h
}

// hinted reports whether the name of a node has that hint.
func hinted(name, hint string) bool {
	_, rest, _ := strings.Cut(name, "-")
	return strings.HasPrefix(rest, hint)
}

// newID returns a random id of a write.
func newID() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // it never returns an error
	return strings.ToLower(digits.EncodeToString(b[:]))
}

// has reports whether the set contains the request. A request is the same whether it shares its
// lease or not: which one, is a parameter.
func has(set []string, request string) bool {
	request = strings.TrimSuffix(request, shared)
	for _, r := range set {
		if strings.TrimSuffix(r, shared) == request {
			return true
		}
	}
	return false
}

// without returns a copy of the set without the request.
func without(set []string, request string) []string {
	rest := make([]string, 0, len(set))
	for _, r := range set {
		if r != request {
			rest = append(rest, r)
		}
	}
	return rest
}

// ofOwner reports whether the contender is a lease of that principal and owner.
func ofOwner(c Contender, principal, owner string) bool {
	return c.Lease != nil && c.Lease.Principal == principal && c.Lease.Owner == owner
}

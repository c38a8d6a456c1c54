// SPDX-License-Identifier: Apache-2.0

// Package locktoken makes and verifies lock tokens: the name of a lease's node, the hash of the request, and a MAC that
// only the service can make. A token proves that its bearer was granted the lease, without a read.
package locktoken

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/lease"
)

// minKey is the least number of bytes of a key.
const minKey = 32

// ErrInvalid is returned for a token that was not made for the caller and the path that it is used for.
var ErrInvalid = errors.New("lock token is not valid for this owner and lock")

// Keys are the service's keys, one or two. The first makes tokens, and each of them verifies. Replicas share them.
type Keys struct{ keys [][]byte }

// ParseKeys reads a file of keys: one or two rows of hexadecimal digits, of 32 bytes at least. Empty rows and those
// that begin with '#' are ignored. Errors do not quote the content.
func ParseKeys(content []byte) (*Keys, error) {
	keys := &Keys{}
	for row := range strings.Lines(string(content)) {
		row = strings.TrimSpace(row)
		if row == "" || row[0] == '#' {
			continue
		}
		k, err := hex.DecodeString(row)
		if err != nil {
			return nil, fmt.Errorf("key %d is not hexadecimal", len(keys.keys)+1)
		}
		if len(k) < minKey {
			return nil, fmt.Errorf("key %d has %d bytes: at least %d are needed", len(keys.keys)+1, len(k), minKey)
		}
		keys.keys = append(keys.keys, k)
	}
	if n := len(keys.keys); n < 1 || n > 2 {
		return nil, fmt.Errorf("%d keys: one is needed, or two during a rotation", n)
	}
	return keys, nil
}

// Make returns the token of a ticket.
func (k *Keys) Make(t lease.Ticket) string {
	return t.Node + "." + t.Request + "." + base64.RawURLEncoding.EncodeToString(mac(k.keys[0], t))
}

// Verify returns the ticket of a token, for the caller and the path that it is used for. It returns ErrInvalid if the
// token was made for others, was altered, or was made with a key that is no longer there.
func (k *Keys) Verify(token, path, principal, owner string) (lease.Ticket, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || strings.ContainsAny(token, "\r\n") { // which the decoder skips
		return lease.Ticket{}, ErrInvalid
	}
	t := lease.Ticket{Path: path, Principal: principal, Owner: owner, Node: parts[0], Request: parts[1]}
	// Strict: the bits that pad the last character are zero. A token has one spelling.
	sum, err := base64.RawURLEncoding.Strict().DecodeString(parts[2])
	if err != nil {
		return lease.Ticket{}, ErrInvalid
	}
	for _, secret := range k.keys {
		if hmac.Equal(sum, mac(secret, t)) {
			return t, nil
		}
	}
	return lease.Ticket{}, ErrInvalid
}

// mac covers the node as well: a release deletes the node that its token names, without a read. Each field is prefixed
// with its length, so that no two tickets have the same input.
func mac(secret []byte, t lease.Ticket) []byte {
	h := hmac.New(sha256.New, secret)
	for _, field := range []string{"lockkeeper lock token 1", t.Path, t.Principal, t.Owner, t.Node, t.Request} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(field))))
		h.Write([]byte(field))
	}
	return h.Sum(nil)
}

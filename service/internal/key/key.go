// SPDX-License-Identifier: Apache-2.0

// Package key maps the keys of the HTTP API to the names of ZooKeeper nodes, and back.
package key

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// MaxBytes is the length up to which a key is accepted, unless a principal has a lower limit.
const MaxBytes = 512

// plain lists the punctuation that stands for itself in a node's name, besides letters and digits.
const plain = "._:~@+-"

const upperHex = "0123456789ABCDEF"

// Check returns what is wrong with a key, nil if nothing is. The error does not quote the key, which can be long.
func Check(key string) error {
	switch {
	case key == "":
		return errors.New("key is empty")
	case len(key) > MaxBytes:
		return fmt.Errorf("key of %d bytes is over the limit of %d", len(key), MaxBytes)
	case !utf8.ValidString(key):
		// Answers are JSON, which cannot carry such a key back to the caller.
		return errors.New("key is not valid UTF-8")
	}
	return nil
}

// Encode returns the name of a key's node. Two keys never have the same name, and a name has no slash.
func Encode(key string) string {
	if key == "." || key == ".." { // ZooKeeper refuses them as names
		return strings.ReplaceAll(key, ".", "%2E")
	}
	return EncodePrefix(key)
}

// EncodePrefix returns the prefix of the names of all keys that begin with prefix, the keys "." and ".." excepted.
func EncodePrefix(prefix string) string {
	var b strings.Builder
	for i := range len(prefix) {
		if c := prefix[i]; isPlain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		}
	}
	return b.String()
}

// Decode returns the key whose node has a name. It reports false for a name that Encode never returns: another
// program created that node, and no request can reach it.
func Decode(name string) (key string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] != '%' {
			b.WriteByte(name[i])
			continue
		}
		if i+2 >= len(name) {
			return "", false
		}
		high, low := strings.IndexByte(upperHex, name[i+1]), strings.IndexByte(upperHex, name[i+2])
		if high < 0 || low < 0 {
			return "", false
		}
		b.WriteByte(byte(high<<4 | low))
		i += 2
	}
	key = b.String()
	return key, Check(key) == nil && Encode(key) == name
}

func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(plain, c) >= 0
}

var namespaces = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckNamespace returns what is wrong with a namespace, nil if nothing is.
func CheckNamespace(namespace string) error {
	if !namespaces.MatchString(namespace) {
		return errors.New("namespace is not 1 to 64 letters, digits, '.', '_' and '-' that begin with a letter or digit")
	}
	// The library keeps its own nodes at the root, lockkeeper-history for instance; /zookeeper belongs to the servers.
	if strings.HasPrefix(namespace, "lockkeeper-") || namespace == "zookeeper" {
		return errors.New("namespace is reserved")
	}
	return nil
}

// Path returns the path of a key's node, below the service's root.
func Path(namespace, key string) string { return "/" + namespace + "/" + Encode(key) }

// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxResource bounds the name of a resource, in bytes: a name of this length fits into a key of every store.
const maxResource = 512

// CheckResource returns nil if name is a valid name of a guarded resource, and otherwise an error with the reason. A valid
// name is 1 to 512 bytes of UTF-8 without NUL. Every guard of this module applies the rule, and your own guards can.
func CheckResource(name string) error {
	switch {
	case name == "":
		return errors.New("the resource's name is empty")
	case len(name) > maxResource:
		return fmt.Errorf("the resource's name has %d bytes, more than %d", len(name), maxResource)
	case strings.ContainsRune(name, 0):
		return errors.New("the resource's name contains a NUL")
	case !utf8.ValidString(name):
		// XML, JSON or a collation may convert such a name in transit into another resource's.
		return errors.New("the resource's name is not UTF-8")
	}
	return nil
}

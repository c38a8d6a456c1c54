// SPDX-License-Identifier: Apache-2.0

// Package names says what a resource may be called, once for all guards.
package names

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const longest = 512 // bytes: fits into a key of every store

// Check returns an error that says what is wrong with the name of a resource, or nil.
func Check(name string) error {
	switch {
	case name == "":
		return errors.New("the resource's name is empty")
	case len(name) > longest:
		return fmt.Errorf("the resource's name has %d bytes, more than %d", len(name), longest)
	case strings.ContainsRune(name, 0):
		return errors.New("the resource's name holds a NUL")
	case !utf8.ValidString(name):
		// What passes through XML, JSON or a collation on its way may come out as another name.
		return errors.New("the resource's name is not UTF-8")
	}
	return nil
}

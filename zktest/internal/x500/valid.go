// SPDX-License-Identifier: Apache-2.0

package x500

import (
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
)

// types are the keywords that Java reads. It reads the number of any other type.
var types = strings.Fields(`CN C L S ST O OU T IP STREET DC DNQUALIFIER DNQ SURNAME GIVENNAME INITIALS GENERATION EMAIL
	EMAILADDRESS UID SERIALNUMBER`)

var number = regexp.MustCompile(`^(OID\.)?([01]\.[0-3]?[0-9]|2\.[0-9]+)(\.[0-9]+)*$`)

// Valid reports whether Java can read a name, as an ACL of scheme x509 requires. An ACL can therefore have a name that
// identifies no client: identities are compared as text, with the form that Name returns.
func Valid(name string) bool {
	if name == "" {
		return true
	}
	for _, part := range split(name, ",;") {
		for _, one := range split(part, "+") {
			keyword, value, found := strings.Cut(one, "=")
			keyword = strings.ToUpper(strings.TrimSpace(keyword))
			if !found || !slices.Contains(types, keyword) && !number.MatchString(keyword) || !validValue(value) {
				return false
			}
		}
	}
	return true
}

// split splits at separators that are neither in quotes nor escaped.
func split(s, separators string) (parts []string) {
	quoted, begin := false, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && strings.IndexByte(separators, c) >= 0:
			parts = append(parts, s[begin:i])
			begin = i + 1
		}
	}
	return append(parts, s[begin:])
}

// validValue reports whether a value is empty, a # with digits of base 16, in quotes, or plain text.
func validValue(value string) bool {
	value = strings.TrimLeft(value, " \n")
	switch {
	case value == "":
		return true
	case value[0] == '#':
		digits, err := hex.DecodeString(strings.TrimRight(value[1:], " \n"))
		return err == nil && len(digits) > 0
	case value[0] == '"':
		end, ok := scan(value[1:], `"`)
		return ok && end < len(value)-1 && strings.Trim(value[end+2:], " \n") == ""
	}
	end, ok := scan(value, `,+<>;"`)
	return ok && end == len(value)
}

// scan returns the index of the first byte of stops that is not escaped, or the length of s. It reports false if a character
// is escaped that must not be.
func scan(s, stops string) (end int, ok bool) {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '\\':
			if strings.IndexByte(stops, s[i]) >= 0 {
				return i, true
			}
		case i+2 < len(s) && isHex(s[i+1:i+3]):
			i += 2
		case i+1 < len(s) && strings.IndexByte(",=\n+<>#;\\\" ", s[i+1]) >= 0:
			i++
		default:
			return i, false
		}
	}
	return len(s), true
}

func isHex(pair string) bool {
	_, err := hex.DecodeString(pair)
	return err == nil
}

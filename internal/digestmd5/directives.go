// SPDX-License-Identifier: Apache-2.0

package digestmd5

import (
	"errors"
	"fmt"
	"strings"
)

// directives are the values of a token by name, in their order.
type directives map[string][]string

func (d directives) has(name string) bool { return len(d[name]) > 0 }

// first returns the first value of a directive, "" if there is none.
func (d directives) first(name string) string {
	if !d.has(name) {
		return ""
	}
	return d[name][0]
}

const blank = " \t\r\n"

// parse reads a token: name=value or name="value" each, separated by commas.
func parse(token []byte) (directives, error) {
	found := directives{}
	rest := strings.Trim(string(token), blank+",")
	for rest != "" {
		name, after, ok := strings.Cut(rest, "=")
		name = strings.TrimSpace(name)
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not a directive", rest)
		}
		value, after, err := readValue(strings.TrimLeft(after, blank))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		found[strings.ToLower(name)] = append(found[strings.ToLower(name)], value)
		after = strings.TrimLeft(after, blank)
		if after != "" && after[0] != ',' {
			return nil, fmt.Errorf("%s: followed by %q", name, after)
		}
		rest = strings.TrimLeft(after, blank+",")
	}
	return found, nil
}

// readValue reads a value, and returns what follows it.
func readValue(s string) (value, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexByte(s, ',')
		if end < 0 {
			end = len(s)
		}
		return strings.TrimRight(s[:end], blank), s[end:], nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], nil
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", errors.New("quoted value without an end")
}

// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"unicode/utf16"
	"unicode/utf8"
)

// javaText returns a string as ZooKeeper writes it after it has read it: Java reads malformed UTF-8 as U+FFFD, and ZooKeeper
// writes each of the two surrogates of a character above U+FFFF by itself.
func javaText(text []byte) string {
	ascii := true
	for _, c := range text {
		ascii = ascii && c < utf8.RuneSelf
	}
	if ascii {
		return string(text)
	}
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && n == 1:
			n = malformed(text)
			out = utf8.AppendRune(out, utf8.RuneError)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = appendUnit(appendUnit(out, high), low)
		default:
			out = append(out, text[:n]...)
		}
		text = text[n:]
	}
	return string(out)
}

// appendUnit appends a surrogate.
func appendUnit(out []byte, unit rune) []byte {
	return append(out, 0xe0|byte(unit>>12), 0x80|byte(unit>>6)&0x3f, 0x80|byte(unit)&0x3f)
}

// malformed returns how many bytes Java replaces by one U+FFFD: those that could begin a character, or a surrogate.
func malformed(text []byte) int {
	next := func(i int, low, high byte) bool { return i < len(text) && low <= text[i] && text[i] <= high }
	low, high := byte(0x80), byte(0xbf)
	switch lead := text[0]; {
	case lead == 0xe0:
		low = 0xa0
	case lead == 0xf0:
		low = 0x90
	case lead == 0xf4:
		high = 0x8f
	case lead < 0xe0 || lead > 0xf4:
		return 1
	}
	switch {
	case !next(1, low, high):
		return 1
	case next(2, 0x80, 0xbf):
		return 3 // of a surrogate, or of a character of four bytes that ends early
	}
	return 2
}

// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"strconv"
	"strings"
)

// withSuffix adds a letter and a number to the nonce of a name, and nothing for the number 0.
func withSuffix(nonce, letter string, number int64) string {
	if number == 0 {
		return nonce
	}
	if nonce != "" {
		nonce += "-"
	}
	return nonce + letter + strconv.FormatInt(number, 10)
}

// parseSuffix returns the number of 1 to most that withSuffix added, given what stands before the
// separator of a name. It returns 0 if there is none.
func parseSuffix(before, letter string, most int64) int64 {
	before, found := strings.CutSuffix(before, "-")
	if !found {
		return 0
	}
	i := strings.LastIndex(before, "-"+letter)
	if i < 0 {
		return 0
	}
	digits := before[i+len("-"+letter):]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 1 || n > most || digits[0] == '0' || digits[0] == '+' {
		return 0
	}
	return n
}

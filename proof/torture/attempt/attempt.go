// SPDX-License-Identifier: Apache-2.0

// Package attempt has the words in which histories of the torture describe attempts: operations, the recipes that they exercise,
// and errors. Contenders write them, and the verdict reads them.
package attempt

import (
	"cmp"
	"strings"
)

// operations maps each operation, the text of Asked, to the recipe that a grant of it exercises. The digit of "acquire" is the
// weight; "downgrade" is "write", and then a downgrade and as much time as a reader, and "nest" is a lock that is locked twice.
var operations = map[string]string{
	"lock": "lock", "try": "lock", "campaign": "election", "read": "reader", "write": "writer", "downgrade": "writer",
	"acquire1": "permits", "acquire2": "permits", "acquire3": "permits", "tryacquire": "permits", "all": "several locks", "nest": "nested lock",
	"slot": "slot", "tryslot": "slot",
}

// RecipeOf returns the recipe of an attempt, given the text of its Asked event.
func RecipeOf(asked string) string {
	how, _, _ := strings.Cut(asked, ",")
	return cmp.Or(operations[how], "lock")
}

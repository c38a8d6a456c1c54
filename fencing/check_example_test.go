// SPDX-License-Identifier: Apache-2.0

package fencing_test

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// A register stores the newest token and its history with its value, as a row of a database does.
type register struct {
	value, history string
	newest         fencing.Token
}

// put is one transaction.
func (r *register) put(token fencing.Token, history, value string) error {
	next, err := fencing.CheckInHistory(token, r.newest, history, r.history)
	if err != nil {
		return err
	}
	*r = register{value: value, history: next, newest: token}
	return nil
}

func ExampleCheckInHistory() {
	var r register
	fmt.Println(r.put(7, "before", "seven"))
	fmt.Println(r.put(6, "before", "six"))
	fmt.Println(r.put(7, "before", "seven again"))
	fmt.Println(r.value)
	// Output:
	// <nil>
	// fencing: token 6 is stale: 7 has been admitted
	// <nil>
	// seven again
}

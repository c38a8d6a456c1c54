// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

// Two holders of one lock write, one after the other. The first has not been notified of its loss.
func Example() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:ledger?mode=memory&cache=shared&_pragma=busy_timeout(5000)")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, sqlfence.Migration(sqlfence.SQLite)+"CREATE TABLE ledger (entry TEXT);")
	if err != nil {
		fmt.Println(err)
		return
	}

	guard, err := sqlfence.New(db, sqlfence.SQLite, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	put := func(token fencing.Token, entry string) error {
		return guard.Do(ctx, "ledger", token, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO ledger VALUES (?)", entry)
			return err
		})
	}
	fmt.Println(put(4294967311, "opened by the first"))
	fmt.Println(put(4294967330, "corrected by the second"))
	fmt.Println(put(4294967311, "closed by the first"))
	// Output:
	// <nil>
	// <nil>
	// sqlfence: write "ledger" with token 4294967311: fencing: token 4294967311 is stale: 4294967330 has been admitted
}

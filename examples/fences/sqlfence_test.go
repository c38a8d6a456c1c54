// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	_ "modernc.org/sqlite" // the driver, which needs no C compiler

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

// The guard checks the token in the transaction that writes. A real program has the token from hold.Token, or receives it with
// the request.
func Example_database() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:ledger?mode=memory&cache=shared")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	guard, err := sqlfence.New(db, sqlfence.SQLite, nil)
	if err != nil {
		log.Fatal(err)
	}
	const schema = "CREATE TABLE ledger (total INTEGER); INSERT INTO ledger VALUES (0)"
	if _, err := db.ExecContext(ctx, guard.Migration()+";"+schema); err != nil { // in a program, a migration
		log.Fatal(err)
	}
	add := func(token fencing.Token, amount int) error {
		return guard.Do(ctx, "ledger", token, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE ledger SET total = total + ?", amount)
			return err
		})
	}

	fmt.Println("holder with token 41:", add(41, 100))
	fmt.Println("holder with token 42:", add(42, 10))
	err = add(41, 1000) // by the first holder, which was paused and does not know that it lost the lock
	fmt.Println("stale:", errors.Is(err, fencing.ErrStale))
	var total int
	if err := db.QueryRowContext(ctx, "SELECT total FROM ledger").Scan(&total); err != nil {
		log.Fatal(err)
	}
	fmt.Println("total:", total)
	// Output:
	// holder with token 41: <nil>
	// holder with token 42: <nil>
	// stale: true
	// total: 110
}

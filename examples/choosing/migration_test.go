// SPDX-License-Identifier: Apache-2.0

package choosing

import (
	"context"
	"database/sql"
	"fmt"
	"log"

	"github.com/lockkeeper/lockkeeper/lock"
)

// Each pod of a deployment starts by migrating the schema. One of them does it, the others wait and find it done. A pod that was
// paused meanwhile cannot write afterwards: the guard refuses its older token. That holds in SQLite and PostgreSQL. In MySQL and
// MariaDB, CREATE TABLE ends the transaction: see package sqlfence.
func Example_schemaMigration() {
	ctx := context.Background()
	db, guard := open(ctx, "shop", "CREATE TABLE schema (version INTEGER); INSERT INTO schema VALUES (1)")
	defer db.Close()

	migrate := func(tx *sql.Tx) error {
		var version int
		if err := tx.QueryRowContext(ctx, "SELECT version FROM schema").Scan(&version); err != nil || version == 2 {
			return err
		}
		fmt.Println("migrating from version", version)
		_, err := tx.ExecContext(ctx, "CREATE TABLE orders (id INTEGER); UPDATE schema SET version = 2")
		return err
	}
	inParallel(3, func(int) error {
		client := connect(ctx)
		defer client.Close()
		mu, err := lock.New(client, "/locks/schema", nil)
		if err != nil {
			return err
		}
		return mu.Do(ctx, func(ctx context.Context, hold *lock.Hold) error {
			return guard.Do(ctx, "schema", hold.Token(), migrate)
		})
	})
	var version int
	if err := db.QueryRowContext(ctx, "SELECT version FROM schema").Scan(&version); err != nil {
		log.Fatal(err)
	}
	fmt.Println("version", version)
	// Output:
	// migrating from version 1
	// version 2
}

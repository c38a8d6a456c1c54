// SPDX-License-Identifier: Apache-2.0

package choosing

import (
	"context"
	"database/sql"
	"fmt"
	"log"

	"github.com/lockkeeper/lockkeeper/lock"
)

// A queue delivers the message of a payment twice, to two pods. The row of the payment shows whether it was paid, in transactions
// that the guard checks. The provider cannot check a token, so that it gets the payment's id as an idempotency key: a pod that is
// paused or dies between the two transactions lets the next one repeat the payment, and the provider ignores that.
func Example_paymentDeduplication() {
	ctx := context.Background()
	db, guard := open(ctx, "payments", "CREATE TABLE payments (id TEXT PRIMARY KEY, token INTEGER, paid BOOLEAN DEFAULT FALSE)")
	defer db.Close()
	client := connect(ctx)
	defer client.Close()
	pay := func(idempotencyKey string) { fmt.Println("provider: paid", idempotencyKey) }

	const payment = "payment-17"
	inParallel(2, func(int) error {
		mu, err := lock.New(client, "/locks/payments/"+payment, nil)
		if err != nil {
			return err
		}
		return mu.Do(ctx, func(ctx context.Context, hold *lock.Hold) error {
			var paid bool
			err := guard.Do(ctx, payment, hold.Token(), func(tx *sql.Tx) error {
				const insert = "INSERT INTO payments (id, token) VALUES (?, ?) ON CONFLICT DO NOTHING"
				if _, err := tx.ExecContext(ctx, insert, payment, hold.Token()); err != nil {
					return err
				}
				return tx.QueryRowContext(ctx, "SELECT paid FROM payments WHERE id = ?", payment).Scan(&paid)
			})
			if err != nil || paid {
				return err
			}
			pay(payment) // in no transaction: the provider may take long
			return guard.Do(ctx, payment, hold.Token(), func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE payments SET paid = TRUE WHERE id = ?", payment)
				return err
			})
		})
	})
	var payments int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM payments WHERE paid").Scan(&payments); err != nil {
		log.Fatal(err)
	}
	fmt.Println("payments:", payments)
	// Output:
	// provider: paid payment-17
	// payments: 1
}

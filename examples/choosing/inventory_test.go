// SPDX-License-Identifier: Apache-2.0

package choosing

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/lock"
)

// Two orders reserve the same two items, named in different orders. Each takes both locks or none, so that they cannot deadlock,
// and each row is guarded by the token of its own lock. The last pair goes to one of the orders.
func Example_inventoryReservation() {
	ctx := context.Background()
	db, guard := open(ctx, "stock", "CREATE TABLE stock (item TEXT, free INTEGER); INSERT INTO stock VALUES ('bike', 1), ('bell', 1)")
	defer db.Close()
	client := connect(ctx)
	defer client.Close()
	errSoldOut := errors.New("sold out")

	reserve := func(items ...string) error {
		locks := make([]*lock.Mutex, len(items))
		for i, item := range items {
			locks[i], _ = lock.New(client, "/stock/"+item, nil) // nil if the path is invalid: All returns an error then
		}
		both, err := lock.All(locks...)
		if err != nil {
			return err
		}
		return both.Do(ctx, func(ctx context.Context, hold *lock.MultiHold) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback() // after a commit, it does nothing
			for i, item := range items {
				if err := guard.Admit(ctx, tx, item, hold.Claim(locks[i]).Token()); err != nil {
					return err
				}
				result, err := tx.ExecContext(ctx, "UPDATE stock SET free = free - 1 WHERE item = ? AND free > 0", item)
				if err != nil {
					return err
				} else if n, err := result.RowsAffected(); n == 0 {
					return errors.Join(errSoldOut, err)
				}
			}
			return tx.Commit()
		})
	}
	orders, results := [][]string{{"bike", "bell"}, {"bell", "bike"}}, [2]error{}
	inParallel(2, func(pod int) error { results[pod-1] = reserve(orders[pod-1]...); return nil })
	fmt.Println("one order has both:", (results[0] == nil) != (results[1] == nil))
	fmt.Println("the other is refused:", errors.Is(errors.Join(results[:]...), errSoldOut))
	// Output:
	// one order has both: true
	// the other is refused: true
}

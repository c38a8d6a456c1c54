// SPDX-License-Identifier: Apache-2.0

package choosing

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// The examples connect to ZK_SERVERS, as programs do.
func TestMain(m *testing.M) { os.Exit(zktest.MainWithServers(m)) }

// connect returns a client of the servers that ZK_SERVERS names.
func connect(ctx context.Context) *recipes.Client {
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// open returns an empty database of that name, in memory, after a statement, and the guard of its writes.
func open(ctx context.Context, name, statement string) (*sql.DB, *sqlfence.Guard) {
	db, err := sql.Open("sqlite", fmt.Sprintf("file:%s?mode=memory&cache=shared", name))
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(1) // the database exists while a connection does
	for _, s := range []string{sqlfence.Migration(sqlfence.SQLite), statement} {
		if _, err := db.ExecContext(ctx, s); err != nil {
			log.Fatal(err)
		}
	}
	guard, err := sqlfence.New(db, sqlfence.SQLite, nil)
	if err != nil {
		log.Fatal(err)
	}
	return db, guard
}

// inParallel runs f as several pods, and returns when all of them have returned.
func inParallel(pods int, f func(pod int) error) {
	var running sync.WaitGroup
	for pod := range pods {
		running.Go(func() {
			if err := f(pod + 1); err != nil {
				log.Fatal(err)
			}
		})
	}
	running.Wait()
}

// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
	"github.com/lockkeeper/lockkeeper/internal/child"
)

const checked = "the fence has admitted it"

// crashing makes a process die between check and write.
var crashing = child.New("crash", crashWrite.die)

// A crashWrite is a write whose process kills itself after the check.
type crashWrite struct {
	Driver, DSN, Resource, Value string
	Dialect                      sqlfence.Dialect
	Token                        fencing.Token
}

func TestMain(m *testing.M) {
	child.Main()
	code := m.Run()
	if err := errors.Join(postgres.Close(), mariadb.Close(), closeObjectServer(), closeEnsemble()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// crash makes a separate process die between check and write, by SIGKILL.
func crash(t *testing.T, s source, resource string, token fencing.Token, value string) {
	t.Helper()
	requireDeath(t, crashing.Command(t.Context(), crashWrite{
		Driver: s.driver, Dialect: s.dialect, DSN: s.dsn,
		Resource: resource, Token: token, Value: value,
	}))
}

// requireDeath requires that a process dies after the check of its write.
func requireDeath(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	require.True(t, child.Killed(err), "%v\n%s", err, out)
	require.Equal(t, checked, string(out))
}

// dieAfterCheck reports that the check is done, and ends this process by SIGKILL.
func dieAfterCheck() {
	fmt.Print(checked)
	child.Die()
}

func (d crashWrite) die() error {
	db, err := sql.Open(d.Driver, d.DSN)
	if err != nil {
		return err
	}
	guard, err := sqlfence.New(db, d.Dialect, nil)
	if err != nil {
		return err
	}
	e := &entries{db: db, dialect: d.Dialect, guard: guard, hook: dieAfterCheck}
	return e.Write(context.Background(), d.Resource, d.Token, d.Value)
}

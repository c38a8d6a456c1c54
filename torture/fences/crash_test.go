// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

// crashing is the variable that makes a process of this test crash in a write; its value is the write.
const crashing = "LOCKKEEPER_TEST_CRASH"

const checked = "the fence has admitted it"

// A crashWrite is a write whose process kills itself after the check.
type crashWrite struct {
	Driver, DSN, Resource, Value string
	Dialect                      sqlfence.Dialect
	Token                        fencing.Token
}

func TestMain(m *testing.M) {
	if text, dies := os.LookupEnv(crashing); dies {
		fmt.Println("not killed:", die(text))
		os.Exit(1)
	}
	if text, holds := os.LookupEnv(holding); holds {
		if err := hold(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if err := errors.Join(postgres.Close(), mariadb.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// crash makes a separate process die between check and write, by a signal that it cannot catch.
func crash(t *testing.T, s source, resource string, token fencing.Token, value string) {
	t.Helper()
	text, err := json.Marshal(crashWrite{
		Driver: s.driver, Dialect: s.dialect, DSN: s.dsn,
		Resource: resource, Token: token, Value: value,
	})
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	process := exec.CommandContext(t.Context(), self)
	process.Env = append(os.Environ(), crashing+"="+string(text))
	out, err := process.CombinedOutput()
	require.Error(t, err, "it was killed")
	require.Equal(t, checked, string(out))
}

func die(text string) error {
	var d crashWrite
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return err
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	db, err := sql.Open(d.Driver, d.DSN)
	if err != nil {
		return err
	}
	guard, err := sqlfence.New(db, d.Dialect, nil)
	if err != nil {
		return err
	}
	e := &entries{db: db, dialect: d.Dialect, guard: guard, hook: func() {
		fmt.Print(checked)
		_ = self.Kill()
		select {}
	}}
	return e.Write(context.Background(), d.Resource, d.Token, d.Value)
}

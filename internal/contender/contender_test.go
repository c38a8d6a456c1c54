// SPDX-License-Identifier: Apache-2.0

package contender_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/internal/contender"
)

var answering = child.New("answering", func(token int64) error {
	contender.Report("waiting\nfor a node")
	return contender.Serve(map[string]func([]string) (string, error){
		"acquire": func([]string) (string, error) {
			fmt.Println("acquired, says the library")
			return fmt.Sprint("acquired ", token), nil
		},
		"release": func([]string) (string, error) { return "", errors.New("not held") },
	})
})

func TestMain(m *testing.M) {
	child.Main()
	os.Exit(m.Run())
}

func TestContenderIsCommandedAndReports(t *testing.T) {
	p := contender.Start(t, answering.Command(t.Context(), 7))
	require.Equal(t, "waiting for a node", p.Await("waiting"))
	p.RequireWaiting("no command was sent")
	p.Send("acquire")
	require.Equal(t, int64(7), p.Number("acquired"))
	require.Equal(t, "acquired 7", p.Request("acquire", "busy", "acquired"))
	require.Empty(t, p.Poll("acquired"))
	p.Close()
}

func TestFailedCommandFailsTest(t *testing.T) {
	for command, want := range map[string]string{"release": "release: not held", "fly": "fly: unknown command"} {
		p := contender.Start(t, answering.Command(t.Context(), 7))
		recorder := &endRecorder{TB: t}
		p.UseTest(recorder)
		func() {
			defer func() { _ = recover() }()
			p.Request(command, "released")
		}()
		require.Contains(t, recorder.end, want)
		p.UseTest(t)
		p.Close()
	}
}

// An endRecorder is a test that records how it is ended, and ends the function by a panic.
type endRecorder struct {
	testing.TB
	end string
}

func (r *endRecorder) Fatalf(format string, args ...any) {
	r.end = fmt.Sprintf(format, args...)
	panic(r.end)
}

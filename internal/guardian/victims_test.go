// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guardian

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func itoa(n int) string { return strconv.Itoa(n) }

// The file has a line for each process of the group, which outlives its leader and its parent.
func TestProcessGroupIsDeadBeforeASessionIsClosed(t *testing.T) {
	w := newWorld(t, 1)
	p := w.start(task{Sessions: 1})
	file := filepath.Join(t.TempDir(), "pids")
	p.do(fmt.Sprintf("group trap '' TERM HUP; for i in 1 2 3; do (trap '' TERM; sleep 60 & echo $! >> %s; wait) & done; exit", file))
	var pids []string
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(file) // it may not exist yet
		pids = strings.Fields(string(text))
		return len(pids) == 3
	}, time.Minute, time.Millisecond)
	i := w.Intercept(closeRule(func() {
		for _, pid := range pids {
			n, err := strconv.Atoi(pid)
			if err != nil || lives(n) {
				t.Errorf("process %s lives when the session is closed", pid)
			}
		}
	}))
	defer i.Remove()
	p.Kill()
	w.awaitClosed(p.sessions...)
	require.Equal(t, 1, i.Fired())
}

func TestNoSessionIsClosedWhileItsProcessGroupIsNotKnown(t *testing.T) {
	w := newWorld(t, 1)
	p := w.start(task{Sessions: 1})
	p.do("unknown")
	guardian := p.pid("guardian")
	p.Kill()
	requireGone(t, guardian)
	require.Empty(t, intersect(w, p))
}

func TestOwnAndMissingProcessGroupsAreRefused(t *testing.T) {
	for _, id := range []int{-2, os.Getpid(), 1 << 30} {
		v, err := newVictims(id)
		require.Error(t, err)
		require.Error(t, v.kill(t.Context()), "what is not known cannot be killed")
	}
	v, err := newVictims(0)
	require.NoError(t, err)
	require.NoError(t, v.kill(t.Context()))
	v.close()
}

// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guardian

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/child"
)

// sidecarRole serves a socket. It obeys "exhaust", which opens files until no descriptor is free, and "recover", which closes them.
var sidecarRole = child.New("sidecar", func(socket string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return err
	}
	go func() {
		fmt.Println("ended:", Serve(context.Background(), l, nil, func(err error) { fmt.Println("report:", err) }))
	}()
	fmt.Println("serving")
	var files []*os.File
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		switch lines.Text() {
		case "exhaust":
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: 64}); err != nil {
				return err
			}
			for err == nil {
				var f *os.File
				if f, err = os.Open(os.DevNull); err == nil {
					files = append(files, f)
				}
			}
			if !errors.Is(err, syscall.EMFILE) {
				return err
			}
		case "recover":
			for _, f := range files {
				if err := f.Close(); err != nil {
					return err
				}
			}
		}
		fmt.Println("done", lines.Text())
	}
	return nil
})

// A sidecar is a process that serves a socket.
type sidecar struct {
	*guardedProcess
	socket string
	idle   int // descriptors that it has without a connection
}

func startSidecar(t *testing.T) *sidecar {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "guard")
	p, err := child.Start(t, sidecarRole.Command(t.Context(), socket))
	require.NoError(t, err)
	s := &sidecar{guardedProcess: &guardedProcess{Process: p, t: t}, socket: socket}
	s.await("serving")
	s.idle = s.descriptors()
	return s
}

// descriptors returns the number of descriptors that the sidecar has.
func (s *sidecar) descriptors() int {
	entries, err := os.ReadDir(filepath.Join("/proc", itoa(s.Pid()), "fd"))
	require.NoError(s.t, err)
	return len(entries)
}

// awaitDescriptors waits until connections have n descriptors of the sidecar.
func (s *sidecar) awaitDescriptors(n int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.descriptors() == s.idle+n }, 30*time.Second, time.Millisecond, "other than %d", n)
}

// dial connects this process to the sidecar, and closes the connection after use.
func (s *sidecar) dial(use func(*Guard)) {
	s.t.Helper()
	g, err := Dial(s.t.Context(), s.socket)
	require.NoError(s.t, err)
	use(g)
	require.NoError(s.t, g.Close())
}

func TestClosedConnectionsOfLivingProcessLeaveNoDescriptors(t *testing.T) {
	s := startSidecar(t)
	for range 100 {
		s.dial(func(*Guard) {})
	}
	s.awaitDescriptors(0)
}

func TestConnectionWhoseSessionsAreForgottenLeavesNoDescriptors(t *testing.T) {
	s := startSidecar(t)
	s.dial(func(g *Guard) {
		for id := range int64(3) {
			require.NoError(t, g.Protect(t.Context(), []string{"localhost:1"}, id, nil, 50*time.Millisecond))
			g.Forget(id)
		}
		require.NoError(t, g.Group(t.Context(), 0)) // its answer follows what was sent before
	})
	s.awaitDescriptors(0)
}

// The guardian has no other connection of the process then.
func TestSessionIsGuardedAfterItsConnectionWasClosed(t *testing.T) {
	w := newWorld(t, 1)
	s := startSidecar(t)
	p := w.start(task{Sessions: 1, Socket: s.socket})
	s.awaitDescriptors(3)
	p.do("close")
	s.awaitDescriptors(2) // the pidfd, and what waits for it
	require.Empty(t, intersect(w, p), "the process lives")
	p.Kill()
	w.awaitClosed(p.sessions...)
	s.awaitDescriptors(0)
}

func TestSidecarWithoutFreeDescriptorServesWhenItHasSome(t *testing.T) {
	s := startSidecar(t)
	s.do("exhaust")
	dialled := make(chan error, 1)
	go func() {
		g, err := Dial(t.Context(), s.socket)
		if err == nil {
			err = g.Close()
		}
		dialled <- err
	}()
	s.await("report: accept: ")
	s.do("recover")
	require.NoError(t, <-dialled)
	s.awaitDescriptors(0)
}

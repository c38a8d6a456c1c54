// SPDX-License-Identifier: Apache-2.0

package guardian

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// marker is set in the environment of a guardian. Its value is the descriptor of the connection.
const (
	marker     = "LOCKKEEPER_GUARDIAN"
	descriptor = "3"
)

var (
	ready   atomic.Bool // Main was called: a child of this executable becomes a guardian
	running atomic.Bool // this process has a Guard of Start
)

// ignored are the signals that end the processes of a terminal, a group or a service.
var ignored = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
	syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2,
}

// Main makes this process a guardian, and exits when its parent has died, if Start has started it. It returns otherwise.
func Main(dial DialFunc) {
	if os.Getenv(marker) != descriptor {
		ready.Store(true)
		return
	}
	signal.Ignore(ignored...)
	if err := serveParent(dial); err != nil {
		os.Exit(1) // the standard streams are closed
	}
	os.Exit(0)
}

// serveParent watches the process at the inherited socket.
func serveParent(dial DialFunc) error {
	conn, err := unixConn(os.NewFile(3, "parent"))
	if err != nil {
		return err
	}
	return watch(context.Background(), conn, orTCP(dial))
}

// unixConn returns the connection of a socket, and closes f.
func unixConn(f *os.File) (*net.UnixConn, error) {
	conn, err := net.FileConn(f)
	err = errors.Join(err, f.Close())
	if err != nil {
		return nil, err
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("not a Unix socket"), conn.Close())
	}
	return unix, nil
}

// Start starts a guardian: this executable in a child process, whose Main does not return.
func Start(ctx context.Context) (*Guard, error) {
	switch {
	case os.Getenv(marker) == descriptor:
		return nil, errors.New("this process is a guardian: call guard.Main before anything else")
	case !ready.Load():
		return nil, errors.New("guard.Main was not called: it must be the first line of main, or the child would run this program again")
	case !running.CompareAndSwap(false, true):
		return nil, errors.New("this process has a guardian: use its Guard for all clients")
	}
	g, err := newGuard(ctx, startChild, func() { running.Store(false) })
	if err != nil {
		return nil, fmt.Errorf("start a guardian: %w", err)
	}
	return g, nil
}

// startChild starts a guardian. end kills it.
func startChild(ctx context.Context) (*link, func(), error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	conn, err := unixConn(os.NewFile(uintptr(pair[0]), "guardian"))
	theirs := os.NewFile(uintptr(pair[1]), "parent")
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	// The path of the executable may name another file by now.
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = os.Args[:min(1, len(os.Args))]
	cmd.Env = append(os.Environ(), marker+"="+descriptor, "GOMAXPROCS=1")
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = theirs.Close() // nothing was written
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()   // the status does not matter
		_ = conn.Close() // a forked process may have the other end open
	}()
	end := func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
	}
	l, err := newLink(ctx, conn)
	if err != nil {
		end()
		return nil, nil, err
	}
	return l, end, nil
}

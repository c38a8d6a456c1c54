// SPDX-License-Identifier: Apache-2.0

package guardian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// deaths waits for the ends of processes, by their pidfds: a pidfd refers to one process, whatever happens to its number,
// and becomes readable when the process and all its threads have ended.
type deaths struct {
	poll  *os.File // an epoll that the runtime's poller waits for: it occupies no thread
	alive int      // pidfds that have not become readable
}

func newDeaths() (*deaths, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(os.NewSyscallError("fcntl", err), syscall.Close(fd))
	}
	return &deaths{poll: os.NewFile(uintptr(fd), "epoll")}, nil
}

// add adds a process. The caller leaves its pidfd open.
func (d *deaths) add(pidfd int) error {
	event := syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLONESHOT, Fd: int32(pidfd)}
	err := d.control(func(poll int) error { return syscall.EpollCtl(poll, syscall.EPOLL_CTL_ADD, pidfd, &event) })
	if err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	d.alive++
	return nil
}

func (d *deaths) control(f func(poll int) error) error {
	raw, err := d.poll.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}

// await waits until all processes have ended. An error of a ctx that is done says that one has not.
func (d *deaths) await(ctx context.Context) error {
	raw, err := d.poll.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = d.poll.SetReadDeadline(time.Unix(1, 0)) }) // fails once closed
	defer stop()
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		failed = d.count(int(fd))
		return failed != nil || d.alive == 0
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
		failed = d.control(d.count)
	}
	if err := errors.Join(err, failed); err != nil || d.alive == 0 {
		return err
	}
	return ctx.Err()
}

// count subtracts the processes that have ended.
func (d *deaths) count(poll int) error {
	for d.alive > 0 {
		events := make([]syscall.EpollEvent, d.alive)
		n, err := syscall.EpollWait(poll, events, 0)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return os.NewSyscallError("epoll_wait", err)
		case n == 0:
			return nil
		default:
			d.alive -= n
		}
	}
	return nil
}

func (d *deaths) close() { _ = d.poll.Close() } // nothing was written

// isPidfd returns an error if the descriptor does not refer to a process: its readability would mean something else.
func isPidfd(f *os.File) error {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", f.Fd()))
	if err != nil {
		return fmt.Errorf("pidfd: %w", err)
	}
	if !bytes.Contains(info, []byte("\nPid:\t")) {
		return errors.New("the descriptor is no pidfd")
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package guardian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// helloTimeout bounds the wait for the first message.
const helloTimeout = 10 * time.Second

// sendHello sends the first message with the pidfd of this process, which the process opens of itself: no number of a process
// is resolved that could have passed to another.
func sendHello(conn *net.UnixConn, first []byte) error {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return fmt.Errorf("pidfd of this process: %w", err)
	}
	defer func() { _ = self.Release() }() // it never fails
	var failed error
	err = self.WithHandle(func(pidfd uintptr) {
		_, _, failed = conn.WriteMsgUnix(first, syscall.UnixRights(int(pidfd)), nil)
	})
	if errors.Is(err, os.ErrNoHandle) {
		return fmt.Errorf("this system refuses pidfds, which Linux 5.4 has: %w", err)
	}
	return errors.Join(err, failed)
}

// receiveHello reads the first message, and returns the death of its sender, and what was read behind the message.
func receiveHello(ctx context.Context, conn *net.UnixConn) (number int64, death *death, rest []byte, err error) {
	if err := conn.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return 0, nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) }) // fails once closed
	defer stop()
	buffer, oob := make([]byte, maxLine), make([]byte, 128)
	n, length, flags, _, err := conn.ReadMsgUnix(buffer, oob)
	fds := descriptors(oob[:length])
	defer func() {
		for _, f := range fds {
			_ = f.Close() // all but the pidfd, which is nil
		}
	}()
	switch {
	case err != nil:
		return 0, nil, nil, err
	case n == 0:
		return 0, nil, nil, io.EOF
	case flags&syscall.MSG_CTRUNC != 0 || len(fds) != 1:
		return 0, nil, nil, fmt.Errorf("hello with %d descriptors", len(fds))
	}
	line, rest, complete := bytes.Cut(buffer[:n], []byte("\n"))
	var first message
	err = (&lines{}).decode(append(line, '\n'), func(m message) { first = m })
	switch {
	case err != nil:
		return 0, nil, nil, err
	case !complete || first.Kind != hello:
		return 0, nil, nil, errors.New("the first message is no hello")
	case first.Version != version:
		return first.Number, nil, nil, fmt.Errorf("the guardian has version %d of the messages, and the process has version %d", version, first.Version)
	}
	d, err := newDeath(fds[0])
	if err != nil {
		return first.Number, nil, nil, err
	}
	fds[0] = nil
	return first.Number, d, rest, nil
}

// descriptors returns the descriptors of control messages.
func descriptors(oob []byte) (files []*os.File) {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			continue // another kind of message
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files
}

// A death is the end of one process.
type death struct {
	*deaths
	pidfd *os.File
}

func newDeath(pidfd *os.File) (*death, error) {
	if err := isPidfd(pidfd); err != nil {
		return nil, err
	}
	ends, err := newDeaths()
	if err != nil {
		return nil, err
	}
	if err := ends.add(int(pidfd.Fd())); err != nil {
		ends.close()
		return nil, err
	}
	return &death{ends, pidfd}, nil
}

func (d *death) close() {
	d.deaths.close()
	_ = d.pidfd.Close() // nothing was written
}

// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// A process is one run of a server's program.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // of Wait; valid after done
}

// launch starts argv in dir as user u.
func launch(argv []string, dir string, log *os.File, u *user) (*process, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.SysProcAttr = attributes(u)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() { // ends with the process; kill waits for it
		// The kernel takes the end of the thread that started the process for the death of its parent.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill ends the process and its children with SIGKILL, and waits until all have ended: PostgreSQL does not start again while a
// child still uses its shared memory.
func (p *process) kill(ctx context.Context) error {
	if !p.alive() {
		return nil
	}
	children, err := p.signal(syscall.SIGKILL)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for _, child := range children {
		for !ended(child) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

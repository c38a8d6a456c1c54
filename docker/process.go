// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// process is a server that is a process of this machine.
type process struct {
	id     int
	argv   []string
	dir    string
	at     string // host:port for clients
	layout *layout

	ownDisk bool // its data are on its own disk

	mu  sync.Mutex // guards run
	run *execution // the latest, nil before the first
}

// execution is one run of a server's process.
type execution struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; valid after done
}

func (e *execution) alive() bool {
	select {
	case <-e.done:
		return false
	default:
		return true
	}
}

func (pr *process) latest() *execution {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	return pr.run
}

func (pr *process) addr() string { return pr.at }

func (pr *process) running(context.Context) error {
	if run := pr.latest(); !run.alive() {
		return fmt.Errorf("process ended: %w", errors.Join(run.err, os.ErrProcessDone))
	}
	return nil
}

func (pr *process) start(context.Context) error {
	if run := pr.latest(); run != nil && run.alive() {
		return nil
	}
	log, err := os.OpenFile(filepath.Join(pr.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	cmd := exec.Command(pr.argv[0], pr.argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = pr.dir, log, log
	killWithParent(cmd)
	run := &execution{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() { // ends with the process, for which kill waits
		// The kernel kills the process when the thread that started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			run.err = cmd.Wait()
			close(run.done)
		}
	}()
	if err := errors.Join(<-started, log.Close()); err != nil {
		return err
	}
	pr.mu.Lock()
	pr.run = run
	pr.mu.Unlock()
	return nil
}

func (pr *process) kill(ctx context.Context) error {
	run := pr.latest()
	if run == nil {
		return nil
	}
	if err := run.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-run.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (pr *process) pause(context.Context) error { return pr.signal(stopSignal) }

func (pr *process) unpause(context.Context) error {
	if err := pr.signal(contSignal); !errors.Is(err, os.ErrProcessDone) { // a killed server is not paused
		return err
	}
	return nil
}

func (pr *process) signal(s os.Signal) error {
	if s == nil {
		return fmt.Errorf("no such signal on this system: %w", ErrUnsupported)
	}
	return pr.latest().cmd.Process.Signal(s)
}

func (pr *process) partition(ctx context.Context) error {
	return errors.Join(pr.layout.connect(ctx, pr.id, "clients", false), pr.isolate(ctx))
}

func (pr *process) isolate(ctx context.Context) error {
	return pr.layout.connect(ctx, pr.id, "peers", false)
}

func (pr *process) heal(ctx context.Context) error {
	return errors.Join(pr.layout.connect(ctx, pr.id, "clients", true), pr.layout.connect(ctx, pr.id, "peers", true))
}

func (pr *process) tail(context.Context) string {
	f, err := os.Open(filepath.Join(pr.dir, "log"))
	if err != nil {
		return fmt.Sprintf("(log: %v)", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	// Enough for thirty lines. A shorter file is read from its start.
	if _, err := f.Seek(-8<<10, io.SeekEnd); err != nil {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return fmt.Sprintf("(log: %v)", err)
		}
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return fmt.Sprintf("(log: %v)", err)
	}
	lines := strings.SplitAfter(string(b), "\n")
	return strings.Join(lines[max(0, len(lines)-31):], "")
}

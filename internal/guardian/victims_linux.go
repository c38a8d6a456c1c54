// SPDX-License-Identifier: Apache-2.0

package guardian

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// Unknown is the number of a process group that is about to be started: no session is closed before the group is known.
const Unknown = -1

// victims are the process group of a command, which must not outlive the session. A nil one has no processes.
type victims struct {
	id     int
	leader *os.Process // nil while the group is not known
	ended  *deaths     // of the leader
}

// newVictims returns the group with that number, whose leader lives or is not waited for yet. No group has the number 0. After an
// error the group is not known.
func newVictims(id int) (*victims, error) {
	switch {
	case id == 0:
		return nil, nil
	case id == Unknown:
		return &victims{}, nil
	case id == syscall.Getpgrp() || id < 0:
		return &victims{}, fmt.Errorf("process group %d: not the group of a command", id)
	}
	v := &victims{id: id}
	leader, err := os.FindProcess(id)
	if err == nil {
		v.leader = leader
		v.ended, err = newDeaths()
	}
	if err == nil {
		err = add(v.ended, leader)
	}
	if err == nil && !v.has(id) {
		err = errors.New("it has no leader")
	}
	if err != nil {
		v.close()
		return &victims{}, fmt.Errorf("process group %d: %w", id, err)
	}
	return v, nil
}

// add adds a process to those whose end is awaited.
func add(ends *deaths, p *os.Process) error {
	var failed error
	err := p.WithHandle(func(pidfd uintptr) { failed = ends.add(int(pidfd)) })
	return errors.Join(err, failed)
}

func (v *victims) close() {
	if v == nil || v.leader == nil {
		return
	}
	if v.ended != nil {
		v.ended.close()
	}
	_ = v.leader.Release() // it never fails
}

// kill kills all processes of the group, by their pidfds, and waits until all have ended. After an error one may live.
func (v *victims) kill(ctx context.Context) error {
	switch {
	case v == nil:
		return nil
	case v.leader == nil:
		return errors.New("the process group to be killed first is not known")
	}
	// A process that is started while the processes are listed may be missing from the list: so two lists in a row must have
	// no living one. Zombies of the group, for which init may not wait, count as ended.
	for empty := 0; empty < 2; empty++ {
		found, err := v.killListed(ctx)
		if err != nil {
			return fmt.Errorf("kill process group %d: %w", v.id, err)
		}
		if found {
			empty = -1
		}
	}
	if err := syscall.Kill(-v.id, 0); errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("kill process group %d: a process of another user is in it", v.id)
	}
	return nil
}

// killListed kills the processes of the group that are listed now, and waits for their ends. It reports whether one lived.
func (v *victims) killListed(ctx context.Context) (found bool, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false, err
	}
	ends, err := newDeaths()
	if err != nil {
		return false, err
	}
	defer ends.close()
	var members []*os.Process
	defer func() {
		for _, p := range members {
			_ = p.Release() // it never fails
		}
	}()
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || !v.has(pid) {
			continue
		}
		p, err := os.FindProcess(pid)
		if err != nil {
			return false, err
		}
		members = append(members, p) // its pidfd is open until the end is awaited
		switch err := add(ends, p); {
		case errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone):
		case err != nil:
			return false, err
		case !v.has(pid):
			return true, nil // the number may have passed to another process: list again
		}
	}
	if err := ends.control(ends.count); err != nil || ends.alive == 0 {
		return false, err
	}
	if reused, err := v.isReused(); reused || err != nil {
		return false, err
	}
	for _, p := range members {
		if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return false, err
		}
	}
	return true, ends.await(ctx)
}

// isReused reports whether the number of the group has passed to a group of another leader: then all of this one have ended.
func (v *victims) isReused() (bool, error) {
	if err := v.ended.control(v.ended.count); err != nil || v.ended.alive > 0 {
		return false, err
	}
	now, err := os.FindProcess(v.id)
	if err != nil {
		return false, err
	}
	defer func() { _ = now.Release() }() // it never fails
	ends, err := newDeaths()
	if err != nil {
		return false, err
	}
	defer ends.close()
	if err := add(ends, now); err != nil {
		return false, nil // no process has the number any more
	}
	err = ends.control(ends.count)
	return ends.alive > 0, err
}

// has reports whether the process with that number, which may be a zombie, is in the group.
func (v *victims) has(pid int) bool {
	id, err := syscall.Getpgid(pid)
	return err == nil && id == v.id
}

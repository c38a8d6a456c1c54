// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// claimed is the file that a server's folder has for as long as the process lives that made it: locked, which ends with that
// process however it ends. What is found unlocked is of a run that was killed.
const claimed = "claimed"

// claim makes a folder for temporary things that others leave alone until the file is closed, and removes those that
// no process claims any more.
func claim(prefix string) (dir string, hold *os.File, err error) {
	if err := sweep(prefix); err != nil {
		return "", nil, err
	}
	if dir, err = os.MkdirTemp("", prefix); err != nil {
		return "", nil, err
	}
	// It gets its name when it is locked, so that no process finds it before.
	unnamed := filepath.Join(dir, "unclaimed")
	hold, err = os.OpenFile(unnamed, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		err = errors.Join(lock(hold), os.Rename(unnamed, filepath.Join(dir, claimed)))
	}
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir), hold.Close())
	}
	return dir, hold, nil
}

func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

func sweep(prefix string) error {
	files, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*", claimed))
	if err != nil {
		return err
	}
	for _, file := range files {
		hold, err := os.OpenFile(file, os.O_RDWR, 0)
		if err != nil {
			continue // it has gone, or is another user's
		}
		if lock(hold) == nil {
			err = os.RemoveAll(filepath.Dir(file))
		}
		if err := errors.Join(err, hold.Close()); err != nil {
			return err
		}
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// claimed is the name of a file in a server's folder. The process that created the folder holds a lock on it, which ends with
// the process however that ends. So a folder whose file is not locked belongs to a run that was killed.
const claimed = "claimed"

// claim creates a temporary folder that other processes do not remove until the returned file is closed. It also removes the
// folders of killed processes.
func claim(prefix string) (dir string, hold *os.File, err error) {
	if err := sweep(prefix); err != nil {
		return "", nil, err
	}
	if dir, err = os.MkdirTemp("", prefix); err != nil {
		return "", nil, err
	}
	// Rename the file only when it is locked: another process that found it unlocked would remove the folder.
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

// lock locks a file until it is closed, or returns an error if another process holds the lock.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// sweep removes the folders of killed processes.
func sweep(prefix string) error {
	files, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*", claimed))
	if err != nil {
		return err
	}
	for _, file := range files {
		hold, err := os.OpenFile(file, os.O_RDWR, 0)
		if err != nil {
			continue // it was removed, or belongs to another user
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

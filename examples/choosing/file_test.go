//go:build unix

// SPDX-License-Identifier: Apache-2.0

package choosing

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/lockkeeper/lockkeeper/fencing/filefence"
	"github.com/lockkeeper/lockkeeper/lock"
)

// Pods of one host process the files of a folder, each file in one pod. A file that another pod holds is skipped; a result is
// only written with the newest token. filefence does not work on a network file system.
func Example_fileProcessing() {
	ctx := context.Background()
	client := connect(ctx)
	defer client.Close()
	dir, err := os.MkdirTemp("", "files")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	results, fenceDir := filepath.Join(dir, "results"), filepath.Join(dir, "fences")
	if err := errors.Join(os.Mkdir(results, 0o700), os.Mkdir(fenceDir, 0o700)); err != nil {
		log.Fatal(err)
	}
	guard, err := filefence.New(fenceDir, nil)
	if err != nil {
		log.Fatal(err)
	}

	inParallel(2, func(pod int) error {
		file := fmt.Sprintf("file-%d.csv", pod)
		mu, err := lock.New(client, "/locks/files/"+file, nil)
		if err != nil {
			return err
		}
		hold, err := mu.TryLock(ctx)
		if errors.Is(err, lock.ErrLocked) {
			return nil // another pod processes it
		} else if err != nil {
			return err
		}
		err = guard.Do(ctx, file, hold.Token(), func(*os.File) error {
			return os.WriteFile(filepath.Join(results, file), []byte("processed"), 0o600)
		})
		return errors.Join(err, hold.Unlock(ctx))
	})
	written, err := os.ReadDir(results)
	fmt.Println(len(written), "results", err)
	// Output: 2 results <nil>
}

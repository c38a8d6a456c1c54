//go:build unix

// SPDX-License-Identifier: Apache-2.0

package choosing

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"

	"github.com/lockkeeper/lockkeeper/fencing/filefence"
	"github.com/lockkeeper/lockkeeper/lock"
)

// Pods of one host process the files of a folder, each file in one pod. A file that another pod holds or has processed is
// skipped; a result is only written with the newest token. filefence does not work on a network file system.
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

	inParallel(2, func(int) error {
		var failed []error
		for _, file := range []string{"file-1.csv", "file-2.csv"} {
			mu, err := lock.New(client, "/locks/files/"+file, nil)
			if err != nil {
				return err
			}
			hold, err := mu.TryLock(ctx)
			if errors.Is(err, lock.ErrLocked) {
				continue // another pod processes it
			} else if err != nil {
				return err
			}
			err = guard.Do(ctx, file, hold.Token(), func(*os.File) error {
				result := filepath.Join(results, file)
				if _, err := os.Stat(result); !errors.Is(err, fs.ErrNotExist) {
					return err // nil: another pod has processed it
				}
				fmt.Println("processes a file")
				f, err := os.Create(result + ".new")
				if err != nil {
					return err
				}
				_, err = f.WriteString("processed")
				// Without Sync, a power failure could leave an empty result, and the file would count as processed.
				if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
					return err
				}
				return os.Rename(result+".new", result) // a crash leaves the whole result, or none: then the file is processed again
			})
			failed = append(failed, err, hold.Unlock(ctx))
		}
		return errors.Join(failed...)
	})
	// Output:
	// processes a file
	// processes a file
}

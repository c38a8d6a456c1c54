// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Product lists the folders and files at the root of the repository from which the processes of a run are built. A run records
// their Git hashes: a commit that is made again has another hash, its folders keep theirs.
var Product = []string{
	"assign", "barrier", "cmd", "election", "epoch", "fencing", "go.mod", "group", "internal", "lock", "recipes", "schedule", "service",
	"trace", "zktest",
}

// Trees returns the Git hashes of the product in the checkout of the working directory, including its local changes.
func Trees() (map[string]string, error) {
	dir, err := os.MkdirTemp("", "product")
	if err != nil {
		return nil, fmt.Errorf("trees: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // it has the index only
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", args...)
		cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+filepath.Join(dir, "index")) // the checkout's own index stays as it is
		out, err := cmd.Output()
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(failed.Stderr)))
		}
		if err != nil {
			return "", fmt.Errorf("trees: git %s: %w", args[0], err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	root, err := git("rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	if _, err := git(append([]string{"-C", root, "add", "-A", "--"}, Product...)...); err != nil {
		return nil, err
	}
	tree, err := git("write-tree")
	if err != nil {
		return nil, err
	}
	list, err := git("ls-tree", "--full-tree", tree)
	if err != nil {
		return nil, err
	}
	trees := map[string]string{}
	for line := range strings.Lines(list) {
		about, name, _ := strings.Cut(strings.TrimSpace(line), "\t") // mode, type and hash
		trees[name] = about[strings.LastIndexByte(about, ' ')+1:][:12]
	}
	return trees, nil
}

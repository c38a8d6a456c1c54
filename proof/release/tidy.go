// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// checkTidy reports each module of go.work whose go.mod or go.sum file go mod tidy would change.
//
// go mod tidy ignores go.work, and would look for the modules of the repository on the network, where their next
// version is not published yet. So it reads a copy of go.mod that replaces them by their folders.
func checkTidy(ctx context.Context, out io.Writer, root string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return fmt.Errorf("tidy: %w", err)
	}
	modules, err := all(root)
	if err != nil {
		return err
	}
	var untidy []string
	for _, m := range modules {
		if _, err := fmt.Fprintf(out, "tidy %s\n", m.Dir); err != nil {
			return fmt.Errorf("tidy: %w", err)
		}
		diff, err := m.tidyDiff(ctx, root, modules)
		if err != nil {
			return fmt.Errorf("tidy %s: %w", m.Dir, err)
		}
		if len(diff) > 0 {
			untidy = append(untidy, m.Dir)
			if _, err := out.Write(diff); err != nil {
				return fmt.Errorf("tidy: %w", err)
			}
		}
	}
	if len(untidy) > 0 {
		return fmt.Errorf("tidy: not tidy: %s: apply the changes above", strings.Join(untidy, ", "))
	}
	return nil
}

// tidyDiff returns the changes that go mod tidy would make. It runs in a temporary folder's copy of the module files.
func (m Module) tidyDiff(ctx context.Context, root string, modules []Module) (diff []byte, err error) {
	temporary, err := os.MkdirTemp("", "tidy")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()

	for _, other := range modules {
		if other.Path() == m.Path() {
			continue
		}
		folder := filepath.Join(root, filepath.FromSlash(other.Dir))
		if err := m.File.AddReplace(other.Path(), "", folder, ""); err != nil {
			return nil, err
		}
	}
	text, err := m.File.Format()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, filepath.FromSlash(m.Dir))
	sum, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	file := filepath.Join(temporary, "go.mod")
	if err := errors.Join(os.WriteFile(file, text, 0o600), os.WriteFile(filepath.Join(temporary, "go.sum"), sum, 0o600)); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "tidy", "-diff", "-modfile="+file)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	diff, err = cmd.Output()
	// go mod tidy -diff exits with 1 after it has printed a difference.
	if err != nil && len(diff) == 0 {
		return nil, fmt.Errorf("go mod tidy -diff: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return diff, nil
}

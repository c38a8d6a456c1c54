// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// Publish writes the published modules in root as version into proxy, a folder that the go command reads as
// GOPROXY=file://…. They hold what a release of the working tree would hold: files that git ignores are left out.
func Publish(ctx context.Context, root, version, proxy string) error {
	modules, err := Published(root)
	if err != nil {
		return err
	}
	for _, m := range modules {
		if err := m.publish(ctx, root, modules[0].Path(), version, proxy); err != nil {
			return fmt.Errorf("publish %s %s: %w", m.Path(), version, err)
		}
	}
	return nil
}

func (m Module) publish(ctx context.Context, root, rootPath, version, proxy string) error {
	mod, _, err := m.bumped(rootPath, version)
	if err != nil {
		return err
	}
	files, err := m.files(ctx, root, mod)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	// Create leaves out the files of nested modules.
	if err := zip.Create(&archive, module.Version{Path: m.Path(), Version: version}, files); err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, time.Now().UTC()})
	if err != nil {
		return err
	}
	escaped, err := module.EscapePath(m.Path())
	if err != nil {
		return err
	}
	dir := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list":            []byte(version + "\n"),
		version + ".info": info,
		version + ".mod":  mod,
		version + ".zip":  archive.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// files returns the files in the module's folder, with mod as its go.mod. As the go command does, it adds the licence
// of the repository to a nested module that has none.
func (m Module) files(ctx context.Context, root string, mod []byte) ([]zip.File, error) {
	dir := filepath.Join(root, filepath.FromSlash(m.Dir))
	listed, err := git(ctx, dir, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	if err != nil {
		return nil, err
	}
	files := []zip.File{content{"go.mod", mod}}
	licensed := false
	for name := range strings.SplitSeq(strings.TrimSuffix(string(listed), "\x00"), "\x00") {
		f := onDisk{name, filepath.Join(dir, filepath.FromSlash(name))}
		if _, err := f.Lstat(); errors.Is(err, fs.ErrNotExist) || name == "go.mod" {
			continue // deleted, and not committed yet
		}
		licensed = licensed || name == "LICENSE"
		files = append(files, f)
	}
	if !licensed {
		files = append(files, onDisk{"LICENSE", filepath.Join(root, "LICENSE")})
	}
	return files, nil
}

// onDisk is a file of a module archive with the contents of a file on disk.
type onDisk struct{ path, name string }

func (f onDisk) Path() string                 { return f.path }
func (f onDisk) Lstat() (os.FileInfo, error)  { return os.Lstat(f.name) }
func (f onDisk) Open() (io.ReadCloser, error) { return os.Open(f.name) }

// content is a file of a module archive, and its own os.FileInfo.
type content struct {
	path string
	text []byte
}

func (f content) Path() string                 { return f.path }
func (f content) Lstat() (os.FileInfo, error)  { return f, nil }
func (f content) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(f.text)), nil }
func (f content) Name() string                 { return path.Base(f.path) }
func (f content) Size() int64                  { return int64(len(f.text)) }
func (f content) Mode() fs.FileMode            { return 0o644 }
func (f content) ModTime() time.Time           { return time.Time{} }
func (f content) IsDir() bool                  { return false }
func (f content) Sys() any                     { return nil }

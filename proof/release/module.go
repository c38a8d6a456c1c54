// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// list names the published modules. It is a path below the root of the repository.
const list = "proof/release/published.txt"

// A Module is one module of the repository.
type Module struct {
	Dir  string // its folder below the root of the repository, with slashes; "." for the root module
	File *modfile.File
}

// Path returns the module path.
func (m Module) Path() string { return m.File.Module.Mod.Path }

// Tag returns the tag that publishes version of the module.
func (m Module) Tag(version string) string {
	if m.Dir == "." {
		return version
	}
	return m.Dir + "/" + version
}

// Published returns the modules that published.txt lists, in its order. A module that consumers could not use is an
// error: one with a replace directive, or one that requires a module of the repository that is not listed above it.
func Published(root string) ([]Module, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(list)))
	if err != nil {
		return nil, fmt.Errorf("release: %w", err)
	}
	var modules []Module
	above := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		dir := strings.TrimSpace(line)
		if dir == "" || strings.HasPrefix(dir, "#") {
			continue
		}
		m, err := read(root, dir)
		if err != nil {
			return nil, err
		}
		modules = append(modules, m)
		if err := m.publishable(modules[0].Path(), above); err != nil {
			return nil, err
		}
		above[m.Path()] = true
	}
	if len(modules) == 0 {
		return nil, fmt.Errorf("release: %s lists no module", list)
	}
	return modules, nil
}

// all returns the modules that go.work uses, in its order.
func all(root string) ([]Module, error) {
	name := filepath.Join(root, "go.work")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("release: %w", err)
	}
	work, err := modfile.ParseWork(name, text, nil)
	if err != nil {
		return nil, fmt.Errorf("release: %w", err)
	}
	var modules []Module
	for _, use := range work.Use {
		m, err := read(root, strings.TrimPrefix(use.Path, "./"))
		if err != nil {
			return nil, err
		}
		modules = append(modules, m)
	}
	return modules, nil
}

func read(root, dir string) (Module, error) {
	name := filepath.Join(root, filepath.FromSlash(dir), "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return Module{}, fmt.Errorf("release: module %s: %w", dir, err)
	}
	file, err := modfile.Parse(name, text, nil)
	if err != nil {
		return Module{}, fmt.Errorf("release: module %s: %w", dir, err)
	}
	if file.Module == nil {
		return Module{}, fmt.Errorf("release: module %s: its go.mod has no module directive", dir)
	}
	return Module{Dir: dir, File: file}, nil
}

// publishable returns why a consumer could not use the module. above are the paths of the modules listed above it.
func (m Module) publishable(root string, above map[string]bool) error {
	if m.Dir != "." && m.Path() != root+"/"+m.Dir {
		return fmt.Errorf("release: module %s: its path is %s, and must be %s/%s for the go command to find its tags",
			m.Dir, m.Path(), root, m.Dir)
	}
	if len(m.File.Replace) > 0 {
		return fmt.Errorf("release: module %s: its go.mod replaces %s: consumers ignore a replace, and go install refuses it; go.work serves development",
			m.Dir, m.File.Replace[0].Old.Path)
	}
	for _, r := range m.File.Require {
		if within(root, r.Mod.Path) && !above[r.Mod.Path] {
			return fmt.Errorf("release: module %s: it requires %s, which is not above it in %s: a consumer could not resolve it",
				m.Dir, r.Mod.Path, list)
		}
	}
	return nil
}

// bumped returns the contents of the module's go.mod file with version as the requirement of each module of the
// repository, and a line for each requirement that differs.
func (m Module) bumped(root, version string) (text []byte, changes []string, err error) {
	if err := module.Check(m.Path(), version); err != nil {
		return nil, nil, fmt.Errorf("release: module %s: %w", m.Dir, err)
	}
	text, err = m.File.Format()
	if err != nil {
		return nil, nil, fmt.Errorf("release: module %s: %w", m.Dir, err)
	}
	file, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("release: module %s: %w", m.Dir, err)
	}
	for _, r := range m.File.Require {
		if !within(root, r.Mod.Path) || r.Mod.Version == version {
			continue
		}
		if err := file.AddRequire(r.Mod.Path, version); err != nil {
			return nil, nil, fmt.Errorf("release: module %s: %w", m.Dir, err)
		}
		changes = append(changes, fmt.Sprintf("%s/go.mod: require %s %s (was %s)", m.Dir, r.Mod.Path, version, r.Mod.Version))
	}
	text, err = file.Format()
	if err != nil {
		return nil, nil, fmt.Errorf("release: module %s: %w", m.Dir, err)
	}
	return text, changes, nil
}

// within reports whether path is the module root or one below it.
func within(root, path string) bool { return path == root || strings.HasPrefix(path, root+"/") }

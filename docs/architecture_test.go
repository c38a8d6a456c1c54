// SPDX-License-Identifier: Apache-2.0

package worker_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A package below a folder that the page names, such as zktest/internal, needs no line of its own. That does not hold for a
// folder of the first level.
func TestArchitecturePageHasEveryPackageOfTheRootModule(t *testing.T) {
	text, err := os.ReadFile("architecture.md")
	require.NoError(t, err)
	named := map[string]bool{"docs": true} // the link to its own folder is a dot
	for _, found := range regexp.MustCompile("`([a-z0-9/]+)`|\\]\\(\\.\\./([a-z0-9/]+)\\)").FindAllStringSubmatch(string(text), -1) {
		named[found[1]+found[2]] = true
	}
	packages := 0
	require.NoError(t, filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || name == ".." {
			return err
		}
		_, err = os.Stat(filepath.Join(name, "go.mod"))
		if err == nil || entry.Name() == "testdata" || strings.ContainsAny(entry.Name()[:1], "._") {
			return fs.SkipDir
		}
		sources, err := filepath.Glob(filepath.Join(name, "*.go"))
		if err != nil || len(sources) == 0 {
			return err
		}
		packages++
		folder := strings.TrimPrefix(filepath.ToSlash(name), "../")
		for parent := folder; !named[parent]; parent = path.Dir(parent) {
			if !strings.Contains(path.Dir(parent), "/") {
				t.Errorf("docs/architecture.md has no line for the package in %s", folder)
				break
			}
		}
		return nil
	}))
	require.Greater(t, packages, 15)
}

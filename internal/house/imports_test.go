// SPDX-License-Identifier: Apache-2.0

package house

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestImportsPointOneWay(t *testing.T) {
	packages := scan(t, root, module)
	// The command is a separate module, whose packages follow the same rules.
	for importer, imports := range scan(t, filepath.Join(root, "cmd", "lockkeeper"), command) {
		packages[importer] = inFolder("cmd/lockkeeper", imports)
	}
	for _, p := range []string{fencing, recipes, lock, election, epoch, group, command} {
		require.Contains(t, packages, p, "the scan finds existing packages")
	}
	require.Empty(t, violations(rules, packages))
}

func TestABrokenImportRuleIsReported(t *testing.T) {
	for _, broken := range []struct{ file, imports string }{
		{"fencing/gate.go", zk},
		{"fencing/gate.go", recipes},
		{"fencing/gate_test.go", recipes},
		{"recipes/client.go", lock},
		{"recipes/client.go", testify},
		{"recipes/client_plan9.go", "golang.org/x/sys/plan9"},
		{"recipes/client.go", "C"},
		{"internal/protocol/rule.go", session},
		{"internal/session/session.go", recipes},
		{"internal/session/session.go", fencing},
		{"internal/wire/wire.go", session},
		{"lock/mutex.go", election},
		{"lock/mutex.go", zk},
		{"lock/mutex_test.go", election},
		{"election/term.go", lock},
		{"group/watch.go", zk},
		{"group/group.go", election},
		{"election/term.go", child},
		{"zktest/server.go", recipes},
		{"cmd/lockkeeper/main.go", module + "/docker"},
		{"newcomer/newcomer.go", "fmt"},
	} {
		found := violations(rules, scan(t, tree(t, broken.file, broken.imports), module))
		require.Len(t, found, 1, "%s imports %s", broken.file, broken.imports)
		require.Contains(t, found[0], broken.file)
	}
}

func TestWhatTheImportRulesAllowIsNotReported(t *testing.T) {
	for _, fine := range []struct{ file, imports string }{
		{"fencing/gate.go", "sync/atomic"},
		{"fencing/gate_test.go", fencing},
		{"fencing/gate_test.go", testify},
		{"lock/mutex.go", recipes},
		{"lock/mutex_test.go", zk},
		{"cmd/lockkeeper/main.go", election},
		{"lock/testdata/script.go", election},
	} {
		found := violations(rules, scan(t, tree(t, fine.file, fine.imports), module))
		require.Empty(t, found, "%s imports %s", fine.file, fine.imports)
	}
}

func TestNestedModuleIsNotPartOfTheRoot(t *testing.T) {
	dir := tree(t, "docker/ensemble.go", "github.com/testcontainers/testcontainers-go")
	require.Len(t, violations(rules, scan(t, dir, module)), 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "docker", "go.mod"), nil, 0o600))
	require.Empty(t, violations(rules, scan(t, dir, module)))
}

// An imported is an imported path, and the file that imports it, relative to the root.
type imported struct {
	path, file string
}

// scan returns the imports of each package of the module in dir, whose path is prefix. It reads every file, regardless of its
// build constraints.
func scan(t *testing.T, dir, prefix string) map[string][]imported {
	t.Helper()
	packages := map[string][]imported{}
	require.NoError(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != dir {
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			if err == nil || entry.Name() == "testdata" || strings.ContainsAny(entry.Name()[:1], "._") {
				return fs.SkipDir
			}
		}
		if entry.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		file := filepath.ToSlash(relative)
		importer := strings.TrimSuffix(prefix+"/"+file, "/"+filepath.Base(name))
		if _, seen := packages[importer]; !seen {
			packages[importer] = nil // a package that imports nothing needs a rule too
		}
		for _, spec := range parsed.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			packages[importer] = append(packages[importer], imported{path, file})
		}
		return nil
	}))
	return packages
}

// inFolder returns the imports of a nested module with the names of its files relative to the root.
func inFolder(dir string, imports []imported) []imported {
	var found []imported
	for _, i := range imports {
		found = append(found, imported{i.path, dir + "/" + i.file})
	}
	return found
}

// violations returns a sentence for each import that breaks a rule, and for each package without a rule.
func violations(rules map[string]rule, packages map[string][]imported) []string {
	var found []string
	for importer, imports := range packages {
		r, known := rules[importer]
		if !known {
			found = append(found, fmt.Sprintf("%s has no rule: add one to internal/house, with the reason (%v)",
				importer, imports))
			continue
		}
		for _, i := range imports {
			may := r.may
			if strings.HasSuffix(i.file, "_test.go") {
				may = slices.Concat(may, r.tools, []string{importer, faketime, need})
			}
			if !standard(i.path) && !slices.Contains(may, i.path) {
				found = append(found, fmt.Sprintf("%s imports %s: besides the standard library it may import %v, because %s",
					i.file, i.path, may, r.because))
			}
		}
	}
	slices.Sort(found)
	return found
}

// standard reports whether path is of the standard library: the paths of all others begin with a host name.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return path != "C" && !strings.Contains(first, ".")
}

// tree lays out a module with one file that has one import.
func tree(t *testing.T, file, imports string) string {
	t.Helper()
	dir := t.TempDir()
	name := filepath.Join(dir, filepath.FromSlash(file))
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	require.NoError(t, os.WriteFile(name, fmt.Appendf(nil, "package p\n\nimport _ %q\n", imports), 0o600))
	return dir
}

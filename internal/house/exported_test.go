// SPDX-License-Identifier: Apache-2.0

package house

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the lists of exported names")

// lists has a file for each public package, with its exported names: a change of the API is seen in review.
const lists = "testdata/exported"

// maxRecipes bounds the names that package recipes exports: a user who connects has to read all of them.
const maxRecipes = 80

func TestExportedNamesAreThoseOfTheLists(t *testing.T) {
	found := exported(t)
	require.Contains(t, found, "lock")
	require.LessOrEqual(t, strings.Count(found["recipes"], "\n"), maxRecipes, "names that package recipes exports")
	if *update {
		require.NoError(t, os.RemoveAll(lists))
		for name, names := range found {
			file := filepath.Join(lists, filepath.FromSlash(name)+".txt")
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(t, os.WriteFile(file, []byte(names), 0o600))
		}
	}
	listed := map[string]string{}
	require.NoError(t, filepath.WalkDir(lists, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		names, err := os.ReadFile(file)
		name, _ := filepath.Rel(lists, strings.TrimSuffix(file, ".txt"))
		listed[filepath.ToSlash(name)] = string(names)
		return err
	}))
	const remedy = "if the change of the API is intended: go test ./internal/house -run Exported -update"
	for name := range listed {
		require.Contains(t, found, name, "package %s: %s", name, remedy)
	}
	for name, names := range found {
		require.Equal(t, listed[name], names, "package %s: %s", name, remedy)
	}
}

// exported returns the exported names of each public package of a published module, a line each.
func exported(t *testing.T) map[string]string {
	t.Helper()
	modules := map[string]bool{} // by folder, whether it is published
	text, err := os.ReadFile(filepath.Join(root, "proof", "release", "published.txt"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		modules[strings.TrimSpace(line)] = !strings.HasPrefix(line, "#")
	}
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, dir)
		if err != nil || name == "." {
			return err
		}
		name = filepath.ToSlash(name)
		_, noModule := os.Stat(filepath.Join(dir, "go.mod"))
		base := entry.Name()
		if noModule == nil && !modules[name] || base == "internal" || base == "testdata" || strings.HasPrefix(base, ".") {
			return filepath.SkipDir
		}
		if names := namesIn(t, dir); names != nil {
			found[name] = strings.Join(names, "\n") + "\n"
		}
		return nil
	}))
	return found
}

// namesIn returns the exported names of the package in dir, sorted; nil for a command, and if there is no package.
func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		if parsed.Name.Name == "main" {
			return nil
		}
		for _, decl := range parsed.Decls {
			names = append(names, namesOf(decl)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// namesOf returns the exported names of a declaration. A method's begins with the type.
func namesOf(decl ast.Decl) (names []string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		receiver := ""
		if d.Recv != nil {
			of := d.Recv.List[0].Type
			if pointer, is := of.(*ast.StarExpr); is {
				of = pointer.X
			}
			switch generic := of.(type) {
			case *ast.IndexExpr:
				of = generic.X
			case *ast.IndexListExpr:
				of = generic.X
			}
			receiver = of.(*ast.Ident).Name + "."
		}
		if d.Name.IsExported() && (receiver == "" || ast.IsExported(receiver)) {
			names = append(names, receiver+d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			}
		}
		names = slices.DeleteFunc(names, func(name string) bool { return !ast.IsExported(name) })
	}
	return names
}

// SPDX-License-Identifier: Apache-2.0

package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostUpward is how many references of a package may point upward: who reads its files from the lowest one up finds all other
// names explained.
const mostUpward = 5

func TestFilesOfEachPackageHaveAnOrder(t *testing.T) {
	packages := 0
	require.NoError(t, filepath.WalkDir(root, func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if name := entry.Name(); dir != root && (name == "testdata" || strings.ContainsAny(name[:1], "._")) {
			return fs.SkipDir
		}
		refs := references(t, dir)
		if len(refs) < 2 {
			return nil
		}
		packages++
		name, err := filepath.Rel(root, dir)
		require.NoError(t, err)
		order := bestOrder(refs, mostUpward)
		require.LessOrEqual(t, upward(order, refs), mostUpward, "%s has no order of its files in which fewer references point upward: %s",
			name, strings.Join(upwardOf(order, refs), ", "))
		return nil
	}))
	require.Greater(t, packages, 50)
}

func TestFilesThatReferToEachOtherAreReported(t *testing.T) {
	refs := map[string]map[string]int{"a.go": {"b.go": 4}, "b.go": {"c.go": 5}, "c.go": {"a.go": 6}, "d.go": {"a.go": 9}}
	order := bestOrder(refs, 0)
	require.Equal(t, 4, upward(order, refs))
	require.Equal(t, []string{"a.go to b.go (4)"}, upwardOf(order, refs))
}

// references returns how often each file of the package in dir, other than tests, names what another one declares at the level
// of the package.
func references(t *testing.T, dir string) map[string]map[string]int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	var files []*ast.File
	set, refs := token.NewFileSet(), map[string]map[string]int{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
		refs[filepath.Base(name)] = map[string]int{}
	}
	// Imports are not loaded, and files for several systems declare the same: the names of the package are found all the same.
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Error: func(error) {}, Importer: nothing{}}
	found, _ := config.Check(dir, set, files, info)
	for id, object := range info.Uses {
		if found == nil || object.Parent() != found.Scope() {
			continue
		}
		from, to := filepath.Base(set.Position(id.Pos()).Filename), filepath.Base(set.Position(object.Pos()).Filename)
		if from != to {
			refs[from][to]++
		}
	}
	return refs
}

// nothing is an importer of packages without names.
type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) {
	imported := types.NewPackage(path, filepath.Base(path))
	imported.MarkComplete()
	return imported, nil
}

// bestOrder returns an order of the files, the lowest first, in which few references point upward. It moves single files, from
// several orders to begin with, and ends when they are enough.
func bestOrder(refs map[string]map[string]int, enough int) []string {
	best := slices.Sorted(maps.Keys(refs))
	for seed := range uint64(30) {
		order := slices.Sorted(maps.Keys(refs))
		rand.New(rand.NewPCG(seed, seed)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for better := true; better; {
			better = false
			for _, file := range slices.Clone(order) {
				from := slices.Index(order, file)
				to := bestPlace(order, from, refs)
				order = slices.Insert(slices.Delete(order, from, from+1), to, file)
				better = better || to != from
			}
		}
		if upward(order, refs) < upward(best, refs) {
			best = order
		}
		if upward(best, refs) <= enough {
			break
		}
	}
	return best
}

// bestPlace returns the place of the file at from, if it is moved to where the fewest references point upward.
func bestPlace(order []string, from int, refs map[string]map[string]int) int {
	file, place, least := order[from], from, 0
	for step := -1; step <= 1; step += 2 {
		change := 0
		for to := from + step; to >= 0 && to < len(order); to += step {
			passed := order[to]
			change -= step * (refs[file][passed] - refs[passed][file])
			if change < least {
				place, least = to, change
			}
		}
	}
	return place
}

// upward returns how many references point from a file to a later one.
func upward(order []string, refs map[string]map[string]int) (n int) {
	for i, from := range order {
		for _, to := range order[i+1:] {
			n += refs[from][to]
		}
	}
	return n
}

// upwardOf describes the references that point upward.
func upwardOf(order []string, refs map[string]map[string]int) (all []string) {
	for i, from := range order {
		for _, to := range order[i+1:] {
			if n := refs[from][to]; n > 0 {
				all = append(all, fmt.Sprintf("%s to %s (%d)", from, to, n))
			}
		}
	}
	return all
}

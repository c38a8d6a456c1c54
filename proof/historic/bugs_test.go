// SPDX-License-Identifier: Apache-2.0

// Package historic contains only tests. Each entry of its table is a defect that was reported to another project: the test
// reproduces it with that project's code, and runs the same scenario with Lockkeeper.
//
//	go test ./proof/historic -run /etcd-19597/
//
// With -update, the test of the page writes docs/historic-bugs.md.
package historic

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
)

// root is the folder of the repository.
const root = "../.."

// A bug is a defect that was reported to another project.
type bug struct {
	library *library
	number  string // of the report, in the name of the test
	report  string // its address
	wrong   string // what the library does, for the page
	fixed   string // the first version of the library without the defect; "" if none is known
	here    string // what Lockkeeper does in the same scenario, for the page

	theirs func(t *testing.T) // requires that the library behaves as reported
	ours   func(t *testing.T) // requires that Lockkeeper does not
}

func (b *bug) name() string { return b.library.short + "-" + b.number }

// A library is a project that has bugs in the table.
type library struct {
	name  string // on the page
	short string // in the names of tests
	lacks string // what its tests need beside Go, for the page

	module  string // of Go; its version is in go.mod
	version string // of a library that is not a Go module: the version that the defects were reproduced with
}

var bugs = concat(ofZKLock, ofKazoo, ofCurator, ofEtcd, ofClientGo, ofRedsync)

func concat(tables ...[]bug) (all []bug) {
	for _, table := range tables {
		all = append(all, table...)
	}
	return all
}

func TestReportedBugsOfOtherLibrariesAreNotOurs(t *testing.T) {
	for _, b := range bugs {
		t.Run(b.name(), func(t *testing.T) {
			t.Run("theirs", b.theirs)
			t.Run("ours", b.ours)
		})
	}
}

// reproduced returns the version that a defect is reproduced with.
func (l *library) reproduced(t *testing.T) string {
	t.Helper()
	if l.module == "" {
		return l.version
	}
	name := filepath.Join(root, "proof", "go.mod")
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	mod, err := modfile.Parse(name, content, nil)
	require.NoError(t, err)
	for _, r := range mod.Require {
		if r.Mod.Path == l.module {
			return r.Mod.Version
		}
	}
	require.FailNow(t, "go.mod does not require the library", "%s: %s", name, l.module)
	return ""
}

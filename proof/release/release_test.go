// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// newRepository returns a repository with two published modules and one that is not.
func newRepository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		list:            "# in order\n.\nnested\n",
		"CHANGELOG.md":  "# Changelog\n\n## [Unreleased]\n\n## [0.1.0]\n",
		"LICENSE":       "free\n",
		"go.work":       "go 1.26\n\nuse (\n\t.\n\t./internal/private\n\t./nested\n)\n",
		"go.mod":        "module example.com/m\n\ngo 1.26\n",
		"m.go":          "package m\n",
		"nested/go.mod": "module example.com/m/nested\n\ngo 1.26\n\nrequire example.com/m v0.0.0\n",
		"nested/n.go":   "package nested\n\nimport _ \"example.com/m\"\n",
		"internal/private/go.mod": "module example.com/m/internal/private\n\ngo 1.26\n\nrequire example.com/m v0.0.0\n\n" +
			"replace example.com/m => ../..\n",
		"internal/private/p.go": "package private\n\nimport _ \"example.com/m\"\n",
	} {
		write(t, root, name, text)
	}
	run := func(args ...string) {
		_, err := git(t.Context(), root, args...)
		require.NoError(t, err)
	}
	run("init", "--quiet")
	run("config", "user.name", "Test")
	run("config", "user.email", "test@example.com")
	run("config", "commit.gpgSign", "false")
	run("config", "tag.gpgSign", "false")
	run("add", ".")
	run("commit", "--quiet", "--message", "all")
	return root
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	file := filepath.Join(root, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}

func TestPublishedModulesNeedNoReplace(t *testing.T) {
	modules, err := Published(repository)
	require.NoError(t, err)
	require.Equal(t, lockkeeper, modules[0].Path(), "the root module has the first tag")
}

func TestModuleThatConsumersCannotUseIsReported(t *testing.T) {
	for name, broken := range map[string]struct{ file, text, want string }{
		"Replace": {
			"nested/go.mod", "module example.com/m/nested\n\nreplace example.com/m => ../\n",
			"module nested: its go.mod replaces example.com/m",
		},
		"RequiresUnpublishedModule": {
			"nested/go.mod", "module example.com/m/nested\n\nrequire example.com/m/internal/private v0.0.0\n",
			"module nested: it requires example.com/m/internal/private, which is not above it in " + list,
		},
		"RequiresModuleTaggedLater": {
			"go.mod", "module example.com/m\n\nrequire example.com/m/nested v0.0.0\n",
			"module .: it requires example.com/m/nested, which is not above it in " + list,
		},
		"PathIsNotFolder": {
			"nested/go.mod", "module example.com/m/other\n",
			"module nested: its path is example.com/m/other",
		},
		"NoModule":    {list, ".\nabsent\n", "module absent: "},
		"EmptyList":   {list, "# none\n", list + " lists no module"},
		"NoDirective": {"nested/go.mod", "go 1.26\n", "module nested: its go.mod has no module directive"},
	} {
		t.Run(name, func(t *testing.T) {
			root := newRepository(t)
			_, err := Published(root)
			require.NoError(t, err)
			write(t, root, broken.file, broken.text)
			_, err = Published(root)
			require.ErrorContains(t, err, broken.want)
		})
	}
}

func TestDryRunPrintsTagsInOrderAndChangesNothing(t *testing.T) {
	root := newRepository(t)
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, []string{"-root", root, "v0.1.0"}))
	require.Equal(t, `nested/go.mod: require example.com/m v0.1.0 (was v0.0.0)
commit "release: require v0.1.0 of each other"
tag v0.1.0
tag nested/v0.1.0
dry run: nothing was changed; APPLY=1 commits and tags
`, out.String())
	requireUntouched(t, root)
}

func requireUntouched(t *testing.T, root string) {
	t.Helper()
	for _, args := range [][]string{{"status", "--porcelain"}, {"tag", "--list"}} {
		out, err := git(t.Context(), root, args...)
		require.NoError(t, err)
		require.Empty(t, string(out))
	}
}

func TestAppliedReleaseCommitsRequirementsAndTags(t *testing.T) {
	root := newRepository(t)
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, []string{"-root", root, "-apply", "v0.1.0"}))
	require.Contains(t, out.String(), "\nto publish: git push --atomic origin HEAD v0.1.0 nested/v0.1.0\n")
	for _, tag := range []string{"v0.1.0", "nested/v0.1.0"} {
		mod, err := git(t.Context(), root, "show", tag+":nested/go.mod")
		require.NoError(t, err)
		require.Contains(t, string(mod), "\nrequire example.com/m v0.1.0\n")
	}
	status, err := git(t.Context(), root, "status", "--porcelain")
	require.NoError(t, err)
	require.Empty(t, string(status))

	out.Reset()
	require.NoError(t, run(t.Context(), &out, []string{"-root", root, "v0.1.0"}))
	require.Contains(t, out.String(), "not ready: the tag nested/v0.1.0 exists\n")
	require.NotContains(t, out.String(), "release: require")
}

func TestReleaseThatIsNotReadyChangesNothing(t *testing.T) {
	for version, want := range map[string]string{
		"v0.2.0":                             "release v0.2.0: CHANGELOG.md has no section ## [0.2.0]",
		"0.1.0":                              "release 0.1.0: want a version such as v0.1.0",
		"v1":                                 "release v1: want a version such as v0.1.0",
		"v2.0.0":                             "release: module .: ", // its path would end in /v2
		"v0.0.0-20261122085454-239cbee00000": "want a version such as v0.1.0",
	} {
		root := newRepository(t)
		require.ErrorContains(t, run(t.Context(), &bytes.Buffer{}, []string{"-root", root, "-apply", version}), want)
		requireUntouched(t, root)
	}
	root := newRepository(t)
	write(t, root, "m.go", "package m // changed\n")
	err := run(t.Context(), &bytes.Buffer{}, []string{"-root", root, "-apply", "v0.1.0"})
	require.ErrorContains(t, err, "release v0.1.0: the working tree has uncommitted changes")
}

func TestTidyModulesArePassed(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, []string{"-root", newRepository(t), "-tidy"}))
	require.Equal(t, "tidy .\ntidy internal/private\ntidy nested\n", out.String())
}

func TestUntidyModuleIsReportedWithItsChanges(t *testing.T) {
	root := newRepository(t)
	write(t, root, "nested/n.go", "package nested\n")
	var out bytes.Buffer
	err := run(t.Context(), &out, []string{"-root", root, "-tidy"})
	require.ErrorContains(t, err, "tidy: not tidy: nested")
	require.Contains(t, out.String(), "-require example.com/m v0.0.0")
	requireUnchangedModule(t, root)
}

// requireUnchangedModule requires that checking did not change the module.
func requireUnchangedModule(t *testing.T, root string) {
	t.Helper()
	status, err := git(t.Context(), root, "status", "--porcelain", "--", "*.mod", "*.sum")
	require.NoError(t, err)
	require.Empty(t, string(status))
}

func TestModuleThatTidyCannotReadIsReported(t *testing.T) {
	root := newRepository(t)
	write(t, root, "nested/n.go", "package nested\n\nimport _ \"example.com/m/absent\"\n")
	err := run(t.Context(), &bytes.Buffer{}, []string{"-root", root, "-tidy"})
	require.ErrorContains(t, err, "tidy nested: go mod tidy -diff: ")
}

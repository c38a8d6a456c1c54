// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProductHasEachFolderThatContendersAndReplicasAreBuiltFrom(t *testing.T) {
	const repository = "github.com/lockkeeper/lockkeeper/"
	for _, of := range []string{"../worker/...", "../../../cmd/lockkeeper"} {
		cmd := exec.Command("go", "list", "-deps", "./"+filepath.Base(of))
		cmd.Dir = filepath.Dir(of)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		for path := range strings.FieldsSeq(string(out)) {
			if below, ok := strings.CutPrefix(path, repository); ok {
				folder, _, _ := strings.Cut(below, "/")
				if folder != "proof" { // the harness: it is not what a run tests
					require.True(t, slices.Contains(Product, folder), "%s is not in Product", path)
				}
			}
		}
	}
}

// Git rejects a list with a name that does not exist, and the run would record no code.
func TestEachNameInProductExists(t *testing.T) {
	for _, name := range Product {
		_, err := os.Stat(filepath.Join("../../..", name))
		require.NoError(t, err)
	}
}

func TestRunRecordsItsCodeWithLocalChanges(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	run := func(name string, args ...string) string {
		out, err := exec.Command(name, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return strings.TrimSpace(string(out))
	}
	_, err := Trees()
	require.ErrorContains(t, err, "trees: git rev-parse: ", "no repository")

	run("git", "init", "-q")
	for _, name := range Product {
		run("sh", "-c", `mkdir -p "$1" torture && echo 1 >"$1/a"; echo 1 >torture/a`, "sh", name)
	}
	run("git", "add", ".")
	run("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "one")
	committed, err := Trees()
	require.NoError(t, err)
	require.Len(t, committed, len(Product), "not torture")
	require.True(t, strings.HasPrefix(run("git", "rev-parse", "HEAD:lock"), committed["lock"]), "%s", committed)

	run("sh", "-c", "echo 2 >lock/a; echo 2 >torture/a")
	changed, err := Trees()
	require.NoError(t, err)
	require.NotEqual(t, committed["lock"], changed["lock"])
	require.Equal(t, committed["epoch"], changed["epoch"])
	require.Equal(t, "M lock/a\n M torture/a", run("git", "status", "--short"), "the index is as it was")
	run("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-a", "-m", "two")
	require.True(t, strings.HasPrefix(run("git", "rev-parse", "HEAD:lock"), changed["lock"]), "%s", changed)
}

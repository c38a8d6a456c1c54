// SPDX-License-Identifier: Apache-2.0

package house

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A nested module that go.work or the Makefile does not name would never be tested.
func TestEveryModuleIsVettedTestedAndLinted(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	// make vets and lints each of $(MODULES), which it reads from go.work. So does make tidy.
	require.Regexp(t, `(?m)^MODULES +:= \$\(shell awk .* go\.work\)$`, string(makefile))
	require.Contains(t, string(makefile), "go vet $(patsubst %,./%/...,$(MODULES))\n")
	require.Regexp(t, `for m in \$\(MODULES\); do [^;]*;?.*(\\\n.*)?`+regexp.QuoteMeta("golangci-lint' run ./..."), string(makefile))
	work, err := os.ReadFile(filepath.Join(root, "go.work"))
	require.NoError(t, err)
	found := 0
	require.NoError(t, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != root && strings.ContainsAny(entry.Name()[:1], "._") {
			return fs.SkipDir
		}
		if entry.Name() != "go.mod" {
			return nil
		}
		found++
		dir, err := filepath.Rel(root, filepath.Dir(name))
		require.NoError(t, err)
		dir = filepath.ToSlash(dir)
		if dir == "." {
			require.Contains(t, string(work), "\n\t.\n", "go.work does not use the root module")
			return nil
		}
		require.Contains(t, string(work), "\n\t./"+dir+"\n", "go.work does not use the module in %s", dir)
		return nil
	}))
	require.Greater(t, found, 3)
}

// make test tests the packages of all modules, with the race detector or without, except those that other groups test.
func TestPackagesThatOneGroupLeavesOutAreTestedByAnother(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	makefile := strings.ReplaceAll(string(text), "\\\n", " ")
	for _, packages := range []string{
		`PACKAGES  = go list $(patsubst %,./%/...,$(MODULES)) | grep -vxF "$$(go list $(ELSEWHERE) $(1))"`,
		`PLAIN ?= $$($(call PACKAGES,$(RACED)))`,
		`raced="$(RACED)"; $(STEPS) run $(NICE) $(RACE) -p 2 -timeout 40m $$raced;`,
		`$(TEST) -p 2 -timeout 40m $$(printf '%s\n' $(PLAIN) | grep -vxF "$$(go list $(SERVICE))" | sort -r);`,
		`$(TEST) -timeout 40m $$(printf '%s\n' $(PLAIN) | grep -xF "$$(go list $(SERVICE))");`,
	} {
		require.Contains(t, makefile, packages)
	}
	elsewhere := regexp.MustCompile(`(?m)^ELSEWHERE := (.*)$`).FindStringSubmatch(makefile)
	require.NotNil(t, elsewhere)
	for _, name := range strings.Fields(elsewhere[1]) {
		require.Regexp(t, `(?m)^\t.*(run|go test) .*`+regexp.QuoteMeta(name)+`[ ;\n]`, makefile, "no group tests %s", name)
	}
}

func TestEmbeddingALockInheritsTheZooKeeperClientAndNothingElse(t *testing.T) {
	// The test cache does not see what go list reads, but it sees what scan reads.
	packages := scan(t, root, module)
	args := []string{"list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}"}
	for _, library := range []string{fencing, recipes, lock, election, epoch, group} {
		if _, exists := packages[library]; exists {
			args = append(args, library)
		}
	}
	inherited := strings.Fields(output(t, args...))
	require.Contains(t, inherited, fencing)
	for _, path := range inherited {
		require.True(t, path == zk || strings.HasPrefix(path, module+"/"), "a library package depends on %s", path)
	}
}

// output runs the go command in the root and returns what it prints.
func output(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "go %v: %s", args, &stderr)
	return string(out)
}

// Without a RUN of its caller, make bench took a variable of make test for it.
func TestMakefileSetsNoVariableOfACallerButItsDefault(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	callers := map[string]bool{}
	for _, help := range regexp.MustCompile(`(?m)^[a-z-]+:.*## .*$`).FindAllString(string(makefile), -1) {
		for _, variable := range regexp.MustCompile(`\b([A-Z]+)=`).FindAllStringSubmatch(help, -1) {
			callers[variable[1]] = true
		}
	}
	require.Contains(t, callers, "RUN")
	for _, set := range regexp.MustCompile(`(?m)^([A-Z]+) *:?=`).FindAllStringSubmatch(string(makefile), -1) {
		require.NotContains(t, callers, set[1])
	}
}

// SPDX-License-Identifier: Apache-2.0

// Package house contains only tests. They enforce which packages may import which, and what a program that embeds a lock
// inherits.
package house

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	root   = "../.."
	module = "github.com/lockkeeper/lockkeeper"

	fencing    = module + "/fencing"
	recipes    = module + "/recipes"
	background = recipes + "/internal/background"
	lease      = recipes + "/internal/lease"
	session    = recipes + "/internal/session"
	wire       = recipes + "/internal/wire"
	wiretest   = recipes + "/internal/wiretest"
	leases     = module + "/lease"
	lock       = module + "/lock"
	election   = module + "/election"
	epoch      = module + "/epoch"
	zktest     = module + "/zktest"
	command    = module + "/cmd/lockkeeper"
	zkserver   = module + "/internal/zkserver"
	tuning     = module + "/internal/tuning"
	zk         = "github.com/go-zookeeper/zk"
	testify    = "github.com/stretchr/testify/require"
	cobra      = "github.com/spf13/cobra"

	history   = module + "/internal/history"
	checker   = module + "/internal/check"
	porcupine = "github.com/anishathalye/porcupine"
)

// A rule says what a package may import besides the standard library. Its tests may import that, the package itself
// and the tools.
type rule struct {
	may     []string
	tools   []string
	because string
}

// No zkserver: who tests with these needs neither Java nor a container.
var tools = []string{testify, zk, zktest}

// Every package of the root module stands here; a new one finds its place by writing its line.
var rules = map[string]rule{
	fencing: {
		tools:   []string{testify},
		because: "its user is a storage server without ZooKeeper",
	},
	fencing + "/sqlfence": {
		may:     []string{fencing},
		tools:   []string{testify},
		because: "the program that opens the database has chosen a driver, and a guard adds none",
	},
	fencing + "/fencetest": {
		may:     []string{fencing},
		tools:   []string{testify},
		because: "the author of a guard runs it, and needs nothing else for that",
	},
	fencing + "/httpfence": {
		may:     []string{fencing},
		tools:   []string{testify, fencing + "/fencetest", fencing + "/objectfence"},
		because: "it protects any handler with any guard",
	},
	fencing + "/filefence": {
		may:     []string{fencing},
		tools:   []string{testify, fencing + "/fencetest"},
		because: "it needs only a disk and file locks",
	},
	fencing + "/objectfence": {
		may:     []string{fencing},
		tools:   []string{testify, fencing + "/fencetest"},
		because: "the owner of a bucket has chosen its client, and a guard adds none",
	},
	fencing + "/redisfence": {
		may:     []string{fencing},
		tools:   []string{testify},
		because: "it calls a Redis client through one function, and the user chooses the client",
	},
	recipes: {
		may:     []string{fencing, tuning, zk, session, background},
		tools:   append(tools, wiretest),
		because: "lock and election are built on it, and it alone uses the ZooKeeper client",
	},
	session: {
		may:     []string{zk, background, lease, wire},
		tools:   append(tools, wiretest),
		because: "it keeps one session, and knows nothing of queues, claims or tokens",
	},
	background: {
		tools:   []string{testify},
		because: "goroutines and their order are all that it knows of",
	},
	lease: {
		tools:   []string{testify},
		because: "the deadline is arithmetic on instants, and is read and tested as that",
	},
	wire: {
		may:     []string{background},
		tools:   []string{testify, wiretest},
		because: "it reads bytes between the ZooKeeper client and a server, and knows neither sessions nor queues",
	},
	wiretest: {
		because: "it writes the frames of tests, and shares no code with what reads them",
	},
	lock: {
		may:     []string{fencing, recipes},
		tools:   tools,
		because: "recipes contains the code that a lock shares with an election, and the rules of a ZooKeeper session",
	},
	election: {
		may:     []string{fencing, recipes},
		tools:   tools,
		because: "recipes contains the code that an election shares with a lock, and the rules of a ZooKeeper session",
	},
	epoch: {
		may:     []string{fencing, recipes, zk},
		tools:   []string{testify, zktest, election},
		because: "it fences writes to ZooKeeper, which callers pass as ZooKeeper operations, for locks and elections",
	},
	leases: {
		may:     []string{fencing, recipes, zk},
		tools:   tools,
		because: "recipes contains the queue that leases share with locks; of the ZooKeeper client it needs the errors",
	},
	zktest: {
		may:     []string{zktest + "/internal/tree", zktest + "/internal/wire"},
		tools:   []string{testify, zk, fencing, recipes, lock, election, zktest + "/internal/rawclient"},
		because: "a test server that shares code with the tested code shares its mistakes",
	},
	zktest + "/internal/tree": {
		may:     []string{zktest + "/internal/wire"},
		tools:   []string{testify},
		because: "the state of the nodes depends only on the operations on them",
	},
	zktest + "/internal/wire": {
		tools:   []string{testify},
		because: "a codec shared with the client would repeat its mistakes",
	},
	zktest + "/internal/rawclient": {
		may:     []string{zktest + "/internal/wire"},
		tools:   []string{testify},
		because: "it returns a server's replies without interpretation",
	},
	zktest + "/internal/conformance": {
		may:     []string{zktest, zktest + "/internal/rawclient", zktest + "/internal/wire", zkserver},
		tools:   []string{testify, zkserver, zktest},
		because: "it sends the same requests to two servers and compares their replies",
	},
	zktest + "/foreign": {
		tools:   []string{testify, zk, zktest, recipes, lock, election},
		because: "it contains only tests: clients of other projects beside Lockkeeper's",
	},
	command: {
		may:     []string{fencing, recipes, lock, election, zktest, zk, cobra, service},
		tools:   tools,
		because: "a command combines all packages, and its module adds the parser of commands; code that needs more is in its own module",
	},
	module + "/docs": {
		tools:   []string{testify, fencing, recipes, election, zktest},
		because: "it contains only tests: the code that the pages show, as a user writes it",
	},
	tuning: {
		because: "recipes reads it and tests set it, so it must add no dependency to either",
	},
	zkserver: {
		tools:   []string{testify},
		because: "it runs the docker module's command instead of importing it, so that programs that embed a lock inherit no dependency of it",
	},
	history: {
		tools:   []string{testify},
		because: "all kinds of runs record histories, so it depends on none of them",
	},
	checker: {
		may:     []string{history, porcupine},
		tools:   []string{testify},
		because: "a checker shares no code with the code that it checks",
	},
	module + "/internal/simulation": {
		may:     []string{fencing, recipes, lock, election, epoch, zktest, zk, history, tuning},
		tools:   []string{testify, zk, zktest, history, checker, leases},
		because: "it runs the product against the in-process server, and its tests pass the histories to the checker",
	},
	module + "/internal/mutants": {
		tools:   []string{testify},
		because: "it breaks copies of the recipes, and runs the simulation in a separate process",
	},
	module + "/internal/house": {
		tools:   []string{testify},
		because: "it only reads files",
	},
}

func TestImportsPointOneWay(t *testing.T) {
	packages := scan(t, root, module)
	// The command is a module of its own, whose packages follow the same rules.
	for importer, imports := range scan(t, filepath.Join(root, "cmd", "lockkeeper"), command) {
		packages[importer] = inFolder("cmd/lockkeeper", imports)
	}
	for _, p := range []string{fencing, recipes, lock, election, epoch, command} {
		require.Contains(t, packages, p, "the scan finds what is there")
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
		{"recipes/internal/session/session.go", recipes},
		{"recipes/internal/session/session.go", fencing},
		{"recipes/internal/wire/wire.go", session},
		{"lock/mutex.go", election},
		{"lock/mutex.go", zk},
		{"lock/mutex_test.go", election},
		{"election/term.go", lock},
		{"election/term.go", zkserver},
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

// A nested module that go.work or the Makefile does not name would never be tested.
func TestEveryModuleIsVettedTestedAndLinted(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	// make vets and lints each of $(MODULES), which it reads from go.work. So does make tidy.
	require.Regexp(t, `(?m)^MODULES +:= \$\(shell awk .* go\.work\)$`, string(makefile))
	for _, loop := range []string{"go vet ./...", "golangci-lint' run ./..."} {
		require.Regexp(t, `for m in \$\(MODULES\); do [^;]*;?.*(\\\n.*)?`+regexp.QuoteMeta(loop), string(makefile))
	}
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
		require.Regexp(t, `\(cd `+dir+` && go test .*\./\.\.\.\) \|\| failed=1`, string(makefile))
		return nil
	}))
	require.Greater(t, found, 3)
}

func TestEmbeddingALockInheritsTheZooKeeperClientAndNothingElse(t *testing.T) {
	// The test cache does not see what go list reads, but it sees what scan reads.
	packages := scan(t, root, module)
	args := []string{"list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}"}
	for _, library := range []string{fencing, recipes, lock, election, epoch} {
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

// An imported path, and the file that imports it, relative to the root.
type imported struct {
	path, file string
}

// scan returns what each package of a module, whose path is prefix, imports. Its go.mod is in dir. It reads every file, whatever its build constraints say.
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

// violations returns a sentence for each import that breaks a rule, and for each package that has none.
func violations(rules map[string]rule, packages map[string][]imported) []string {
	var found []string
	for importer, imports := range packages {
		r, known := rules[importer]
		if !known {
			found = append(found, fmt.Sprintf("%s has no rule: say in internal/house what it may import, and why (%v)",
				importer, imports))
			continue
		}
		for _, i := range imports {
			may := r.may
			if strings.HasSuffix(i.file, "_test.go") {
				may = slices.Concat(may, r.tools, []string{importer})
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

// SPDX-License-Identifier: Apache-2.0

package house

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// required lists the modules that the root module may require directly, with their versions; "" is any. Modules that these
// require in turn are marked as indirect in go.mod.
var required = map[string]string{
	// Pinned: the session rules depend on how this version dials, queues requests and ends. It requires no other module.
	zk: "v1.0.4",
	// Only in tests: an import elsewhere breaks that package's rule.
	"github.com/stretchr/testify": "",
}

// requiredByDocker lists the modules that the docker module may require directly. Users import it for real servers in their
// tests, and their modules inherit these requirements.
var requiredByDocker = map[string]string{
	"github.com/testcontainers/testcontainers-go": "", // containers and their removal
	"github.com/moby/moby/client":                 "", // signals, files and networks of containers
	"github.com/moby/moby/api":                    "", // the types of that client
	"github.com/containerd/errdefs":               "", // the errors of that client
	// Only in tests.
	zk:                            "",
	"github.com/stretchr/testify": "",
	"go.uber.org/goleak":          "",
}

func TestRootModuleRequiresOnlyWhatItNeeds(t *testing.T) {
	require.Empty(t, unwanted(t, ".", required))
}

// docker must not require the root module: a user of docker alone would otherwise need a release of both.
func TestDockerModuleRequiresOnlyRealServers(t *testing.T) {
	require.Empty(t, unwanted(t, "docker", requiredByDocker))
}

func TestUnwantedRequirementIsReported(t *testing.T) {
	found := unwanted(t, "proof", requiredByDocker)
	require.Contains(t, found, "proof/go.mod requires github.com/aws/aws-sdk-go-v2: every user of the module would have to trust it")
	require.Contains(t, found, "proof/go.mod replaces github.com/lockkeeper/lockkeeper: a replace has no effect for users of the module")
	old := unwanted(t, ".", map[string]string{zk: "v1.0.3", "github.com/stretchr/testify": ""})
	require.Equal(t, []string{"go.mod requires " + zk + " v1.0.4: want v1.0.3"}, old)
}

// Modules that are built together in go.work get the newest version of each dependency. With one version in all go.mod files,
// each module is tested with what its users get.
func TestAllModulesRequireOneVersionOfEachDependency(t *testing.T) {
	mods := map[string]modFile{}
	require.NoError(t, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != root && strings.ContainsAny(entry.Name()[:1], "._"):
			return fs.SkipDir
		case entry.Name() != "go.mod":
			return nil
		}
		file, err := filepath.Rel(root, name)
		mods[filepath.ToSlash(file)] = readMod(t, filepath.ToSlash(file))
		return err
	}))
	require.Contains(t, mods, "go.mod")
	require.Contains(t, mods, "proof/go.mod")
	require.Empty(t, differing(mods))
}

func TestSecondVersionOfDependencyIsReported(t *testing.T) {
	mods := map[string]modFile{
		"go.mod":   {Require: []requirement{{Path: zk, Version: "v1.0.4"}}},
		"a/go.mod": {Require: []requirement{{Path: zk, Version: "v1.0.3", Indirect: true}, {Path: module, Version: "v0.0.0"}}},
		"b/go.mod": {Require: []requirement{{Path: zk, Version: "v1.0.4"}, {Path: module, Version: "v0.1.0"}}},
	}
	require.Equal(t, []string{zk + ": v1.0.3 in a/go.mod; v1.0.4 in b/go.mod, go.mod: run go get and go mod tidy in the older ones"}, differing(mods))
}

// differing returns a sentence for each dependency that the modules require in several versions. The modules of this repository
// have the version of the next release.
func differing(mods map[string]modFile) []string {
	files := map[string]map[string][]string{} // by dependency and version
	for _, file := range slices.Sorted(maps.Keys(mods)) {
		for _, r := range mods[file].Require {
			if r.Path == module || strings.HasPrefix(r.Path, module+"/") {
				continue
			}
			if files[r.Path] == nil {
				files[r.Path] = map[string][]string{}
			}
			files[r.Path][r.Version] = append(files[r.Path][r.Version], file)
		}
	}
	var found []string
	for _, dependency := range slices.Sorted(maps.Keys(files)) {
		versions := slices.Sorted(maps.Keys(files[dependency]))
		if len(versions) == 1 {
			continue
		}
		var uses []string
		for _, version := range versions {
			uses = append(uses, version+" in "+strings.Join(files[dependency][version], ", "))
		}
		found = append(found, dependency+": "+strings.Join(uses, "; ")+": run go get and go mod tidy in the older ones")
	}
	return found
}

// A modFile is a go.mod file as go mod edit prints it.
type modFile struct {
	Require []requirement
	Replace []struct{ Old struct{ Path string } }
}

// A requirement is one module that a go.mod file requires.
type requirement struct {
	Path, Version string
	Indirect      bool
}

// readMod reads a go.mod file. Its name is relative to the root.
func readMod(t *testing.T, file string) (mod modFile) {
	t.Helper()
	// The test cache does not see what go mod edit reads.
	_, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal([]byte(output(t, "mod", "edit", "-json", file)), &mod))
	require.NotEmpty(t, mod.Require)
	return mod
}

// unwanted returns a sentence for each direct requirement and each replace of a module's go.mod that is not allowed.
func unwanted(t *testing.T, dir string, allowed map[string]string) []string {
	t.Helper()
	file := path.Join(dir, "go.mod")
	mod := readMod(t, file)
	var found []string
	for _, r := range mod.Require {
		version, known := allowed[r.Path]
		switch {
		case r.Indirect:
		case !known:
			found = append(found, fmt.Sprintf("%s requires %s: every user of the module would have to trust it", file, r.Path))
		case version != "" && version != r.Version:
			found = append(found, fmt.Sprintf("%s requires %s %s: want %s", file, r.Path, r.Version, version))
		}
	}
	for _, r := range mod.Replace {
		found = append(found, fmt.Sprintf("%s replaces %s: a replace has no effect for users of the module", file, r.Old.Path))
	}
	return found
}

// SPDX-License-Identifier: Apache-2.0

package house

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
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
	// Only in the checker of histories, by its rule. It requires no other module.
	"github.com/anishathalye/porcupine": "",
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
	found := unwanted(t, "torture", requiredByDocker)
	require.Contains(t, found, "torture/go.mod requires github.com/aws/aws-sdk-go-v2: every user of the module would have to trust it")
	require.Contains(t, found, "torture/go.mod replaces github.com/lockkeeper/lockkeeper: a replace has no effect for users of the module")
	old := unwanted(t, ".", map[string]string{zk: "v1.0.3", "github.com/stretchr/testify": "", "github.com/anishathalye/porcupine": ""})
	require.Equal(t, []string{"go.mod requires " + zk + " v1.0.4: want v1.0.3"}, old)
}

// unwanted returns a sentence for each direct requirement and each replace of a module's go.mod that is not allowed.
func unwanted(t *testing.T, dir string, allowed map[string]string) []string {
	t.Helper()
	var mod struct {
		Require []struct {
			Path, Version string
			Indirect      bool
		}
		Replace []struct{ Old struct{ Path string } }
	}
	file := path.Join(dir, "go.mod")
	// The test cache does not see what go mod edit reads.
	_, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal([]byte(output(t, "mod", "edit", "-json", file)), &mod))
	require.NotEmpty(t, mod.Require)
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

// SPDX-License-Identifier: Apache-2.0

package zkpath

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPathThatZooKeeperOrWeRefuseIsNamed(t *testing.T) {
	for path, why := range map[string]string{
		"":                    "is empty",
		"locks":               "is not absolute",
		"locks/a":             "is not absolute",
		" /locks":             "is not absolute",
		"/":                   "is the root",
		"//":                  "empty segment",
		"//locks":             "empty segment",
		"/locks//a":           "empty segment",
		"/locks/":             "empty segment",
		"/.":                  `segment "."`,
		"/locks/./a":          `segment "."`,
		"/locks/..":           `segment ".."`,
		"/../locks":           `segment ".."`,
		"/lo\x00cks":          "U+0000",
		"/lo\ncks":            "U+000A",
		"/lo\x1fcks":          "U+001F",
		"/lo\x7fcks":          "U+007F",
		"/lo\u0085cks":        "U+0085",
		"/lo\ue000cks":        "U+E000",
		"/lo\uf8ffcks":        "U+F8FF",
		"/lo\ufff0cks":        "U+FFF0",
		"/lo\uffffcks":        "U+FFFF",
		"/lo\U00010000cks":    "U+10000",
		"/emoji🔒":             "U+1F512",
		"/lo\xffcks":          "not valid UTF-8",
		"/zookeeper":          "belongs to ZooKeeper",
		"/zookeeper/locks":    "belongs to ZooKeeper",
		"/zookeeper/quota/xx": "belongs to ZooKeeper",
	} {
		err := Check(path)
		require.ErrorContains(t, err, why, "%q", path)
		require.ErrorContains(t, err, fmt.Sprintf("%q", path), "the error names the value")
	}
}

func TestPathsThatZooKeeperTakesAreTaken(t *testing.T) {
	for _, path := range []string{
		"/a", "/locks/ledger", "/locks/.hidden", "/locks/...", "/a b", "/größe/鎖", "/zookeepers", "/a/zookeeper", "/\ud7ff\uf900\uffef",
	} {
		require.NoError(t, Check(path), "%q", path)
	}
}

func TestParentOfATopLevelNodeIsTheRoot(t *testing.T) {
	require.Equal(t, "/", Parent("/a"))
	require.Equal(t, "/a", Parent("/a/b"))
	require.Equal(t, "/a/b", Parent("/a/b/c"))
}

// Such a node would be a contender of the queue above it.
func TestPathThatEndsLikeAContenderIsRefused(t *testing.T) {
	for _, path := range []string{"/orders/clock-1700000000", "/orders/x__READ__0000000001/a", "/a/__lock__0000000001"} {
		err := CheckRecipe(path)
		require.ErrorContains(t, err, fmt.Sprintf("%q", path))
		require.ErrorContains(t, err, "ends like a contender's node")
		require.ErrorContains(t, err, "choose a name that does not end in")
	}
	for _, path := range []string{"/clock-170000000", "/clock-1700000000x", "/lock", "/0000000001"} {
		require.NoError(t, CheckRecipe(path), path)
	}
	require.ErrorContains(t, CheckRecipe("/a//b"), "empty segment")
}

// SPDX-License-Identifier: Apache-2.0

package recipes

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
		"/lo\xffcks":          "not valid UTF-8",
		"/zookeeper":          "belongs to ZooKeeper",
		"/zookeeper/locks":    "belongs to ZooKeeper",
		"/zookeeper/quota/xx": "belongs to ZooKeeper",
	} {
		err := checkPath(path)
		require.ErrorContains(t, err, why, "%q", path)
		require.ErrorContains(t, err, fmt.Sprintf("%q", path), "the error names the value")
	}
}

func TestPathsThatZooKeeperTakesAreTaken(t *testing.T) {
	for _, path := range []string{
		"/a", "/locks/ledger", "/locks/.hidden", "/locks/...", "/a b", "/größe/鎖", "/zookeepers", "/a/zookeeper", "/emoji🔒",
	} {
		require.NoError(t, checkPath(path), "%q", path)
	}
}

func TestParentOfATopLevelNodeIsTheRoot(t *testing.T) {
	require.Equal(t, "/", parentOf("/a"))
	require.Equal(t, "/a", parentOf("/a/b"))
	require.Equal(t, "/a/b", parentOf("/a/b/c"))
}

func TestServersGetTheDefaultPort(t *testing.T) {
	checked, err := checkServers([]string{
		"zk1", "zk2:2182", "10.0.0.1", "10.0.0.1:1", "[::1]", "[::1]:65535", "[fe80::1%eth0]:2181", "zk_3.example.org", "localhost:2181",
	})
	require.NoError(t, err)
	require.Equal(t, []string{
		"zk1:2181", "zk2:2182", "10.0.0.1:2181", "10.0.0.1:1", "[::1]:2181", "[::1]:65535", "[fe80::1%eth0]:2181", "zk_3.example.org:2181", "localhost:2181",
	}, checked)
}

func TestServerListThatCannotBeMeantIsNamed(t *testing.T) {
	for _, none := range [][]string{nil, {}} {
		_, err := checkServers(none)
		require.ErrorContains(t, err, "server list [] is empty")
	}
	for _, server := range []string{
		"", " ", ":", ":2181", "zk1:", "zk1:0", "zk1:65536", "zk1:-1", "zk1:+1", "zk1:port", "zk1:2181:2181", "zk1:2181/chroot",
		"::1", "fe80::1", "2001:db8::1:2181", "[::1", "::1]", "[]", "[]:2181", "[::1]2181", "[::1]:0", "[zk1", "zk1]", "]zk1[", "[[::1]]",
		"[not:an:address]", "[not:an:address]:2181",
		"zk 1:2181", "zk1 :2181", "zk1\n", "zk1,zk2", "zk1:2181,zk2:2181", "http://zk1:2181", "/zk1", "zk1/a", "zk\x7f1",
	} {
		_, err := checkServers([]string{"zk1:2181", server})
		require.ErrorContains(t, err, fmt.Sprintf("server %q", server), "%q", server)
	}
}

// SPDX-License-Identifier: Apache-2.0

package connectstring

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServersGetTheDefaultPort(t *testing.T) {
	checked, chroot, err := Parse([]string{
		"zk1", "zk2:2182", "10.0.0.1", "10.0.0.1:1", "[::1]", "[::1]:65535", "[fe80::1%eth0]:2181", "zk_3.example.org", "localhost:2181",
	})
	require.NoError(t, err)
	require.Empty(t, chroot)
	require.Equal(t, []string{
		"zk1:2181", "zk2:2182", "10.0.0.1:2181", "10.0.0.1:1", "[::1]:2181", "[::1]:65535", "[fe80::1%eth0]:2181", "zk_3.example.org:2181", "localhost:2181",
	}, checked)
}

func TestConnectStringIsReadAsZooKeeperReadsIt(t *testing.T) {
	two := []string{"zk1:2181", "zk2:2182"}
	for _, c := range []struct {
		list    []string
		servers []string
		chroot  string
	}{
		{[]string{"zk1:2181,zk2:2182"}, two, ""},
		{[]string{"zk1,zk2:2182"}, two, ""},
		{[]string{"zk1:2181, zk2:2182"}, two, ""},
		{[]string{"zk1:2181,zk2:2182/"}, two, ""},
		{[]string{"zk1:2181,zk2:2182/app"}, two, "/app"},
		{[]string{"zk1:2181,zk2:2182/app/a b"}, two, "/app/a b"},
		{[]string{"zk1/app"}, two[:1], "/app"},
		{[]string{"[::1]:2181,[::2]/app"}, []string{"[::1]:2181", "[::2]:2181"}, "/app"},
		{[]string{"zk1:2181", "zk2:2182/app"}, two, "/app"},     // a connect string that was split at its commas
		{[]string{"zk1:2181/app", "zk2:2182/app"}, two, "/app"}, // the same for all
	} {
		servers, chroot, err := Parse(c.list)
		require.NoError(t, err, "%q", c.list)
		require.Equal(t, c.servers, servers, "%q", c.list)
		require.Equal(t, c.chroot, chroot, "%q", c.list)
	}
}

func TestChrootThatCannotBeMeantIsNamed(t *testing.T) {
	for server, why := range map[string]string{
		"zk1:2181/app/":         `chroot "/app/" of "zk1:2181/app/": path "/app/" has an empty segment`,
		"zk1:2181//app":         `chroot "//app" of "zk1:2181//app": path "//app" has an empty segment`,
		"zk1:2181/../app":       `has the segment ".."`,
		"zk1:2181/zookeeper":    "belongs to ZooKeeper itself",
		"zk1:2181/a,zk2:2181":   `chroot "/a,zk2:2181" of "zk1:2181/a,zk2:2181" has a comma: it follows the last server`,
		"zk1:2181/a,zk2:2181/a": `chroot "/a,zk2:2181/a" of "zk1:2181/a,zk2:2181/a" has a comma`,
		"http://zk1:2181":       `server "http:" of "http://zk1:2181" has no valid port`,
	} {
		_, _, err := Parse([]string{server})
		require.ErrorContains(t, err, why)
	}
	_, _, err := Parse([]string{"zk1:2181/app", "zk2:2181", "zk3:2181/other"})
	require.EqualError(t, err, `chroots "/app" and "/other" differ: one client has one namespace`)
}

func TestServerListThatCannotBeMeantIsNamed(t *testing.T) {
	for _, none := range [][]string{nil, {}} {
		_, _, err := Parse(none)
		require.ErrorContains(t, err, "server list [] is empty")
	}
	for _, server := range []string{
		"", " ", ":", ":2181", "zk1:", "zk1:0", "zk1:65536", "zk1:-1", "zk1:+1", "zk1:port", "zk1:2181:2181",
		"::1", "fe80::1", "2001:db8::1:2181", "[::1", "::1]", "[]", "[]:2181", "[::1]2181", "[::1]:0", "[zk1", "zk1]", "]zk1[", "[[::1]]",
		"[not:an:address]", "[not:an:address]:2181",
		"zk 1:2181", "zk1 :2181", "zk1\n", "zk\x7f1",
	} {
		_, _, err := Parse([]string{"zk1:2181", server})
		require.ErrorContains(t, err, fmt.Sprintf("server %q", server), "%q", server)
		_, _, err = Parse([]string{"zk1:2181," + server + "/app"})
		require.ErrorContains(t, err, fmt.Sprintf("server %q of %q", server, "zk1:2181,"+server+"/app"), "%q", server)
	}
	for _, list := range []string{"/app", ",", "zk1,", "zk1,,zk2"} {
		_, _, err := Parse([]string{list})
		require.ErrorContains(t, err, fmt.Sprintf(`server "" of %q`, list))
	}
}

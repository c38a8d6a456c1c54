// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkPath says what is wrong with path as the place of a recipe.
func checkPath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("path %q is empty", path)
	case path[0] != '/':
		return fmt.Errorf("path %q is not absolute", path)
	case path == "/":
		return fmt.Errorf("path %q is the root, which holds more than one recipe", path)
	case !utf8.ValidString(path):
		return fmt.Errorf("path %q is not valid UTF-8", path)
	}
	for _, segment := range strings.Split(path[1:], "/") {
		switch segment {
		case "":
			return fmt.Errorf("path %q has an empty segment", path)
		case ".", "..":
			return fmt.Errorf("path %q has the segment %q, which ZooKeeper refuses", path, segment)
		}
	}
	for _, r := range path {
		// What ZooKeeper refuses, beyond the control characters.
		if unicode.IsControl(r) || r >= '\ue000' && r <= '\uf8ff' || r >= '\ufff0' && r <= '\uffff' {
			return fmt.Errorf("path %q has the character %U, which ZooKeeper refuses", path, r)
		}
	}
	if strings.HasPrefix(path, "/zookeeper/") || path == "/zookeeper" {
		return fmt.Errorf("path %q belongs to ZooKeeper itself", path)
	}
	return nil
}

// parentOf returns the path of the node above path, "/" at the top.
func parentOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// checkServers returns servers as host:port, the port defaulting to 2181.
func checkServers(servers []string) ([]string, error) {
	if len(servers) == 0 {
		return nil, fmt.Errorf("server list %q is empty", servers)
	}
	checked := make([]string, len(servers))
	for i, server := range servers {
		host, port, err := net.SplitHostPort(server)
		if err != nil {
			// Without a port, then. An IPv6 address without brackets is told from a
			// host with a port by nothing but guessing, so it is refused.
			host, port, err = net.SplitHostPort(server + ":2181")
		}
		if err != nil {
			return nil, fmt.Errorf("server %q is not host:port", server)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("server %q has no valid port", server)
		}
		if !isHost(host) {
			return nil, fmt.Errorf("server %q has no valid host", server)
		}
		checked[i] = net.JoinHostPort(host, port)
	}
	return checked, nil
}

// isHost says whether host may be the name or the address of a server. What a
// name may consist of is for the resolver to say.
func isHost(host string) bool {
	if strings.Contains(host, ":") {
		_, err := netip.ParseAddr(host)
		return err == nil
	}
	return host != "" && !strings.ContainsFunc(host, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == '/' || r == ','
	})
}

// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkPath returns what is wrong with path as the node of a recipe, nil if nothing is.
func checkPath(path string) error {
	if err := checkSize(path); err != nil {
		return err
	}
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
		// ZooKeeper refuses these, beside the control characters.
		if unicode.IsControl(r) || r >= '\ue000' && r <= '\uf8ff' || r >= '\ufff0' && r <= '\uffff' {
			return fmt.Errorf("path %q has the character %U, which ZooKeeper refuses", path, r)
		}
	}
	if strings.HasPrefix(path, "/zookeeper/") || path == "/zookeeper" {
		return fmt.Errorf("path %q belongs to ZooKeeper itself", path)
	}
	return nil
}

// CheckPath returns what is wrong with path as that of a lock, an election, a group, a barrier or an epoch, nil if nothing is. It sends
// no request.
//
// A node whose name ends like a contender's, such as /orders/clock-1700000000, would be a contender of the queue above it, and would
// block that for ever.
func CheckPath(path string) error {
	if err := checkPath(path); err != nil {
		return err
	}
	for _, segment := range strings.Split(path[1:], "/") {
		if IsContender(segment) {
			return fmt.Errorf("path %q has the segment %q, which ends like a contender's node and would block a lock above it: "+
				"choose a name that does not end in \"lock-\" and a number", path, segment)
		}
	}
	return nil
}

// fullPath returns the full path of the node at path below the namespace, which is
// empty or an absolute path; "/" is the namespace's own node.
func fullPath(namespace, path string) string {
	if path == "/" && namespace != "" {
		return namespace
	}
	return namespace + path
}

// parentOf returns the path of the node above path, "/" at the top.
func parentOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// CheckServers returns the error that Connect would return for a list of servers, nil
// if the list is valid. It sends no request.
func CheckServers(servers []string) error {
	_, _, err := parseServers(servers)
	return err
}

// parseServers returns the servers of a list as host:port, the port defaulting to
// 2181, and the chroot, empty if there is none. Each element is a server or a
// connect string, host:port,host:port/chroot. A chroot applies to all elements, because
// a connect string that was split at its commas has it only in the last one.
func parseServers(list []string) (servers []string, chroot string, err error) {
	if len(list) == 0 {
		return nil, "", fmt.Errorf("server list %q is empty", list)
	}
	for _, element := range list {
		hosts, path := element, ""
		if i := strings.IndexByte(element, '/'); i >= 0 {
			hosts, path = element[:i], element[i:]
		}
		for _, host := range strings.Split(hosts, ",") {
			server, err := parseServer(strings.Trim(host, " "))
			if err != nil {
				name := fmt.Sprintf("server %q", host)
				if host != element {
					name += fmt.Sprintf(" of %q", element)
				}
				return nil, "", fmt.Errorf("%s %w", name, err)
			}
			servers = append(servers, server)
		}
		switch {
		case path == "" || path == "/":
			continue
		case strings.Contains(path, ","):
			return nil, "", fmt.Errorf("chroot %q of %q has a comma: it follows the last server and applies to all", path, element)
		case chroot != "" && path != chroot:
			return nil, "", fmt.Errorf("chroots %q and %q differ: one client has one namespace", chroot, path)
		}
		if err := checkPath(path); err != nil {
			return nil, "", fmt.Errorf("chroot %q of %q: %w", abridged(path), abridged(element), err)
		}
		chroot = path
	}
	return servers, chroot, nil
}

// parseServer returns a server as host:port. Its error continues a sentence whose
// subject is the server.
func parseServer(server string) (string, error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		// It has no port. An IPv6 address without brackets cannot be distinguished
		// from a host with a port, so it is refused.
		host, port, err = net.SplitHostPort(server + ":2181")
	}
	if err != nil {
		return "", errors.New("is not host:port")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("has no valid port")
	}
	if !isHost(host) {
		return "", errors.New("has no valid host")
	}
	return net.JoinHostPort(host, port), nil
}

// isHost reports whether host can be the name or the address of a server. The
// resolver decides which names are valid.
func isHost(host string) bool {
	if strings.Contains(host, ":") {
		_, err := netip.ParseAddr(host)
		return err == nil
	}
	return host != "" && !strings.ContainsFunc(host, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == '/' || r == ','
	})
}

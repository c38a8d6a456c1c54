// SPDX-License-Identifier: Apache-2.0

// Package connectstring parses lists of servers.
package connectstring

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"

	"github.com/lockkeeper/lockkeeper/internal/zkpath"
)

// Check returns the error that Connect would return for a list of servers, nil
// if the list is valid. It sends no request.
func Check(servers []string) error {
	_, _, err := Parse(servers)
	return err
}

// Parse returns the servers of a list as host:port, the port defaulting to
// 2181, and the chroot, empty if there is none. Each element is a server or a
// connect string, host:port,host:port/chroot. A chroot applies to all elements, because
// a connect string that was split at its commas has it only in the last one.
func Parse(list []string) (servers []string, chroot string, err error) {
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
		if err := zkpath.Check(path); err != nil {
			return nil, "", fmt.Errorf("chroot %q of %q: %w", zkpath.Abridged(path), zkpath.Abridged(element), err)
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

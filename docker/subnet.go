// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
)

// drawSubnet returns a random /24 of 10/8 in which no interface of this machine is. The
// engine's own pools are elsewhere and small. If two runs draw the same subnet, its
// creation fails in one of them, which draws again.
func drawSubnet() (netip.Prefix, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("find a free network: %w", err)
	}
draw:
	for range 100 {
		subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(rand.IntN(256)), byte(rand.IntN(256)), 0}), 24)
		for _, a := range addrs {
			// On a machine whose network is all of 10/8, any subnet may be in use.
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Bits() > 8 && p.Masked().Overlaps(subnet) {
				continue draw
			}
		}
		return subnet, nil
	}
	return netip.Prefix{}, fmt.Errorf("find a free network: this machine is in all of %v", addrs)
}

// host returns the n-th address of a /24.
func host(subnet netip.Prefix, n int) netip.Addr {
	b := subnet.Addr().As4()
	b[3] = byte(n)
	return netip.AddrFrom4(b)
}

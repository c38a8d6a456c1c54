// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"hash/maphash"
	"net/netip"
	"time"

	"golang.org/x/time/rate"
)

// What one address may send without valid credentials: far more than an operator who tries, and far less than what fills a
// disk with log lines.
const (
	strangerRate  = 10 // a second
	strangerBurst = 100
)

// strangerBuckets bounds the memory, about 400 kB. Addresses that share a bucket share its rate.
const strangerBuckets = 4096

// Strangers counts the requests without valid credentials, by the address that sent them: one IPv4 address, or one IPv6
// network of 64 bits. It is safe for concurrent use.
type Strangers struct {
	seed    maphash.Seed // so that no stranger can choose whose bucket it shares
	buckets [strangerBuckets]*rate.Limiter
}

// NewStrangers returns a Strangers that has counted nothing.
func NewStrangers() *Strangers {
	s := &Strangers{seed: maphash.MakeSeed()}
	for i := range s.buckets {
		s.buckets[i] = rate.NewLimiter(strangerRate, strangerBurst)
	}
	return s
}

// Allow counts one request from an address, host:port. It returns 0 if the request is within the limits, and otherwise the
// time after which a request will be.
func (s *Strangers) Allow(remote string) (retryAfter time.Duration) {
	return allow(s.buckets[maphash.String(s.seed, networkOf(remote))%strangerBuckets])
}

// networkOf returns what the sender of a request cannot easily change. All addresses that are no IP address are one.
func networkOf(remote string) string {
	parsed, err := netip.ParseAddrPort(remote)
	if err != nil {
		return ""
	}
	address := parsed.Addr().Unmap().WithZone("")
	if address.Is4() {
		return address.String()
	}
	network, _ := address.Prefix(64) // an IPv6 address has one
	return network.String()
}

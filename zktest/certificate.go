// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"crypto/tls"
	"fmt"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/x500"
)

// certified adds the identity of the client's certificate to the connection, and returns its first item, which has been read:
// the handshake of TLS has ended. The caller does not hold the ensemble's mu.
func (c *conn) certified(first inbound) inbound {
	secured, ok := c.net.(*tls.Conn)
	if !ok || first.end != nil {
		return first
	}
	// Only a certificate that the server has verified: a test's own configuration can ask for one and accept any.
	chains := secured.ConnectionState().VerifiedChains
	if len(chains) == 0 {
		return first
	}
	subject, err := x500.Name(chains[0][0].RawSubject)
	if err != nil {
		return inbound{end: fmt.Errorf("certificate of the client: %w", err)}
	}
	c.server.ensemble.mu.Lock()
	defer c.server.ensemble.unlock()
	c.identify(tree.Identity{Scheme: "x509", ID: subject})
	return first
}

// hasCertificate reports whether the connection has the identity of a certificate. The caller holds the ensemble's mu.
func (c *conn) hasCertificate() bool {
	for _, id := range c.identities {
		if id.Scheme == "x509" {
			return true
		}
	}
	return false
}

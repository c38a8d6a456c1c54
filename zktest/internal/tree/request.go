// SPDX-License-Identifier: Apache-2.0

package tree

import "github.com/lockkeeper/lockkeeper/zktest/internal/wire"

// Requests that no client's frame decodes to.
type (
	// DeleteContainer is the leader's own: it deletes a container or a TTL node that
	// Reapable named, unless it has a child by now.
	DeleteContainer struct{ Path string }

	// OpenSession makes a session known. It changes no node, but has a zxid.
	OpenSession struct{ Timeout int32 }

	// Refused is a request that was refused before it came to the tree, and yet has a
	// zxid: one that could not be decoded, for instance.
	Refused struct {
		Op   wire.Op
		Path string // "" where it is not known
		Code wire.Code
	}
)

// SPDX-License-Identifier: Apache-2.0

package tree

import "github.com/lockkeeper/lockkeeper/zktest/internal/wire"

// Requests that never come from a client's frame.
type (
	// DeleteContainer is the leader's own request: it deletes a container or a TTL node
	// that Deletable has listed, unless it has a child by now.
	DeleteContainer struct{ Path string }

	// OpenSession creates a session. It changes no node, but has a zxid.
	OpenSession struct{ Timeout int32 }

	// Refused is a request that was refused before it reached the tree, but has a zxid: one
	// that could not be decoded, for instance.
	Refused struct {
		Op   wire.Op
		Path string // "" if it is not known
		Code wire.Code
	}
)

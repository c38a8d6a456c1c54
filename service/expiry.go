// SPDX-License-Identifier: Apache-2.0

package service

import (
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/service/internal/audit"
	"github.com/lockkeeper/lockkeeper/service/internal/key"
)

// auditExpiry audits a lease that this replica has deleted, as an observer or as the sweeper, because it was not renewed in
// time.
func (f *files) auditExpiry(c *Config, node string) {
	e := audit.Event{Time: time.Now().UTC(), Action: "expire"}
	e.Namespace, e.Key, e.Node = locate(c.Root, node)
	// A trace that waited for the file would delay other traces, and drop those behind.
	if err := f.audit.Post(e); err != nil {
		c.Logger.Error("audit event not written", "action", e.Action, "node", node, "error", err)
	}
}

// locate returns the namespace and the key of a contender's node, and the node's name. root is the service's, in which a
// chroot does not count. A node at a path that no key has has only a name, its path.
func locate(root, node string) (namespace, name, contender string) {
	segments := strings.Split(node, "/")
	n := len(segments)
	if n < 4 || !strings.HasSuffix(strings.Join(segments[:n-3], "/"), root) || key.CheckNamespace(segments[n-3]) != nil {
		return "", "", node
	}
	name, ok := key.Decode(segments[n-2])
	if !ok {
		return "", "", node
	}
	return segments[n-3], name, segments[n-1]
}

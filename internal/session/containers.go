// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// Containers records, for all sessions of a client, whether the servers have containers. A server without them can close the
// connection instead of an answer, as ClickHouse Keeper does, where each connection also begins another session.
type Containers struct {
	Never bool // create persistent nodes in any case

	mu       sync.Mutex // guards what follows
	answered bool       // a server has answered such a request: it has them, or says that it has not
	hangUps  int        // connections that a server closed instead
	last     *wire.Wire // the last of these
}

// maxHangUps is how many connections a server closes in place of an answer until nodes are persistent. One can be the connection of a
// server that was just stopped.
const maxHangUps = 2

// Missing reports whether parents are to be persistent: by option, or because no server answers requests for containers.
func (c *Containers) Missing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Never || !c.answered && c.hangUps >= maxHangUps
}

// record records how a request on that connection ended.
func (c *Containers) record(w *wire.Wire, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case OutcomeOf(err) == Unsent:
	case !Retryable(err) && !errors.Is(err, zk.ErrSessionExpired): // which the client also returns for requests without an answer
		c.answered, c.last = true, nil
	case w != c.last && w.HungUp():
		c.hangUps, c.last = c.hangUps+1, w
	}
}

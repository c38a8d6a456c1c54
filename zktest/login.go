// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/zktest/internal/sasl"
	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// The callers of the functions in this file hold the ensemble's mu.

// login takes one token of SASL. As a server does it, it answers immediately, and not in the order
// of the other requests.
func (c *conn) login(r *request, req wire.SASL) error {
	e := c.server.ensemble
	switch {
	case req.Token == nil:
		return errors.New("SASL: token is null") // ZooKeeper fails in the attempt to log its length
	case len(e.opts.Users) == 0:
		c.reply(r, 0, wire.OK, func(w *wire.Writer) { w.Bytes(nil) }) // as without a configuration
		return nil
	}
	if c.sasl == nil {
		nonce := make([]byte, 30) // as many as in ZooKeeper's challenge
		_, _ = rand.Read(nonce)   // never fails
		c.sasl = sasl.NewServer(e.opts.Users, base64.StdEncoding.EncodeToString(nonce))
	}
	token, user, err := c.sasl.Step(req.Token)
	if err != nil {
		code := wire.AuthFailed
		if e.opts.RequireSASL {
			code = wire.SessionClosedRequireSASLAuth
		}
		c.reply(r, 0, code, func(w *wire.Writer) { w.Bytes(nil) })
		c.finish(fmt.Errorf("SASL: %w", err))
		return nil
	}
	if user != "" {
		c.identify(tree.Identity{Scheme: "sasl", ID: user})
	}
	c.reply(r, 0, wire.OK, func(w *wire.Writer) { w.Bytes(token) })
	return nil
}

// mustLogIn reports whether the connection has to log in before the request.
func (c *conn) mustLogIn(r *request) bool {
	if !c.server.ensemble.opts.RequireSASL {
		return false
	}
	switch r.body.(type) {
	case wire.ConnectRequest, wire.Auth, wire.SASL:
		return false
	}
	for _, id := range c.identities {
		if id.Scheme == "sasl" {
			return false
		}
	}
	return true
}

// SPDX-License-Identifier: Apache-2.0

package client

// A Ref is what a recipes.Client embeds: it leads the engine's packages to its engine, and has no method that others
// could call.
type Ref struct{ engine *Client }

// RefTo returns the reference to a client.
func RefTo(c *Client) Ref { return Ref{c} }

func (r *Ref) client() *Client { return r.engine }

// A Face is a *recipes.Client.
type Face interface{ client() *Client }

// Of returns the engine of a *recipes.Client.
func Of(c Face) *Client { return c.client() }

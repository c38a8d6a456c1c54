// SPDX-License-Identifier: Apache-2.0

package api

import (
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/service/internal/holds"
)

// written notes a lease that this replica has granted or renewed.
func (a *API) written(c *call, g lease.Grant, renewal bool) {
	a.Holds.Written(holds.Lease{
		Node: g.Ticket.Node, Request: g.Ticket.Request, Namespace: c.namespace, Key: c.key,
		Principal: g.Ticket.Principal, Owner: g.Ticket.Owner, Valid: g.Valid, Renewal: renewal,
		Election: c.action == "campaign" || c.action == "renew-term",
	})
}

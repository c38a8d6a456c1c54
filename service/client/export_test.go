// SPDX-License-Identifier: Apache-2.0

package client

import "time"

// SetNow replaces the clock by which holds of c notice their deadline.
func (c *Client) SetNow(now func() time.Time) { c.now = now }

// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/service/internal/audit"
)

// auditWait bounds how long an answer waits for the audit file. A holder counts its lease from the sending of its request:
// waiting for a file that blocks would cost it the lease.
const auditWait = 100 * time.Millisecond

// subject is what a request says of itself for the audit.
type subject struct{ owner, requestID, mode, reason, token string }

// eventOf returns the event of a call. out is nil if the call was refused, or is not answered yet.
func eventOf(c *call, in any, out *answer) audit.Event {
	e := audit.Event{
		Time: time.Now().UTC(), Action: c.action, Namespace: c.namespace, Key: c.key, Remote: c.remote, Call: c.id,
	}
	if c.principal != nil {
		e.Principal = c.principal.Name
	}
	if s, ok := in.(interface{ subject() subject }); ok {
		of := s.subject()
		e.Owner, e.RequestID, e.Mode, e.Reason, e.Token = of.owner, of.requestID, of.mode, of.reason, of.token
	}
	switch {
	case c.problem != nil:
		e.Status, e.Code = c.problem.Status, string(c.problem.Code)
		switch c.problem.Code {
		case Unavailable, CallerGone, NotRecorded:
			if c.problem.cause != nil {
				e.Detail = c.problem.cause.Error()
			}
		}
	case out != nil:
		e.Status = out.Status
		if body, ok := out.Body.(interface{ lease() (token, node string) }); ok {
			e.Token, e.Node = body.lease()
		}
	}
	return e
}

// audit records a call that was carried out or refused. A record that cannot be written does not undo the action: the log
// and counters report it.
func (a *API) audit(ctx context.Context, e audit.Event) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditWait)
	defer cancel()
	if err := a.Audit.Write(ctx, e); err != nil {
		a.Logger.Error("audit event not written", "action", e.Action, "request", e.Call, "error", err)
	}
}

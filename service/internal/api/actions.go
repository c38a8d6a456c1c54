// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/lockkeeper/lockkeeper/service/internal/audit"
	"github.com/lockkeeper/lockkeeper/service/internal/principal"
)

// recordTimeout bounds how long an administrative action waits for its records.
const recordTimeout = 5 * time.Second

// beginAction records an administrative action before it is carried out: in the audit, and in ZooKeeper. An action that
// cannot be recorded is refused: it would leave no trace if the replica stopped before its end. end records the outcome. If
// that fails, the action is done nevertheless: the record of its beginning stays, and the log and a counter report it. A
// refusal has changed nothing, and leaves no record in ZooKeeper.
func (a *API) beginAction(ctx context.Context, c *call, in any) (end func(audit.Event), p *Problem) {
	end = func(audit.Event) {}
	bounded, cancel := context.WithTimeoutCause(ctx, recordTimeout, fmt.Errorf("not recorded within %v", recordTimeout))
	defer cancel()
	e := eventOf(c, in, nil)
	requested := e
	requested.Action += "-requested"
	err := a.Audit.Write(bounded, requested)
	name := ""
	if err == nil {
		name, err = a.Actions.Begin(bounded, e)
	}
	if err != nil {
		return end, problem(NotRecorded, "Nothing was done.").retryAfter(unavailableRetry).because(err)
	}
	return func(e audit.Event) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
		defer cancel()
		record := a.Actions.End
		if 400 <= e.Status && e.Status < 500 && e.Code != string(CallerGone) {
			record = a.Actions.Withdraw
		}
		if err := record(ctx, name, e); err != nil {
			a.metrics.actionErrors.Inc()
			a.Logger.Error("outcome of an administrative action not recorded", "action", e.Action, "request", e.Call, "error", err)
		}
	}, nil
}

type actionsRequest struct {
	Namespace string `query:"namespace" doc:"Only actions in this namespace. Without it, actions in all namespaces of the principal"`
	Limit     int    `query:"limit" minimum:"1" maximum:"256" default:"100"`
}

// action is one administrative action.
type action struct {
	Time         time.Time `json:"time" doc:"By the clock of the replica that carried it out"`
	Action       string    `json:"action"`
	Principal    string    `json:"principal"`
	Namespace    string    `json:"namespace"`
	LockKey      string    `json:"lockKey"`
	FencingToken string    `json:"fencingToken,omitempty" doc:"Of the holder that the action named"`
	Mode         string    `json:"mode,omitempty"`
	Reason       string    `json:"reason,omitempty"`
	Node         string    `json:"node,omitempty" doc:"Of the contender, in ZooKeeper"`
	Status       int       `json:"status,omitempty" doc:"HTTP. Missing while the action is in progress, and if its outcome was not recorded"`
	Code         string    `json:"code,omitempty" doc:"Of the problem, if the outcome is unknown"`
	Request      string    `json:"request" doc:"The X-Request-Id of the answer, which the log and the audit of the replica have too"`
}

// recentActions are the newest administrative actions.
type recentActions struct {
	Actions []action `json:"actions" doc:"The newest first"`
}

func (r *recentActions) encodedSize() (size int) {
	for _, a := range r.Actions {
		size += 512 + encodedSize(a.Principal) + encodedSize(a.LockKey) + encodedSize(a.Reason) // names of fields, short values
	}
	return size
}

func (a *API) registerActions() {
	register(a, operation{
		name: "actions", method: http.MethodGet, path: "/v1/admin/actions", role: principal.Admin, everywhere: true,
		summary: "List the newest administrative actions of all replicas", answers: map[int]any{200: recentActions{}},
	}, a.listActions)
}

func (a *API) listActions(ctx context.Context, c *call, in *actionsRequest) (*answer, error) {
	found, err := a.recentActions(ctx, c, in.Limit)
	if err != nil {
		return nil, err
	}
	return &answer{Status: http.StatusOK, Body: &recentActions{found}}, nil
}

// recentActions returns the newest actions in the namespace of a call, or in all that its principal may use.
func (a *API) recentActions(ctx context.Context, c *call, limit int) ([]action, error) {
	ctx, cancel := bound(ctx, 0)
	defer cancel()
	events, err := a.Actions.List(ctx, func(namespace string) bool {
		return (c.namespace == "" || namespace == c.namespace) && c.principal.MayUse(namespace)
	}, limit)
	if err != nil {
		return nil, err
	}
	found := []action{}
	for _, e := range events {
		found = append(found, action{
			Time: e.Time, Action: e.Action, Principal: e.Principal, Namespace: e.Namespace, LockKey: e.Key,
			FencingToken: e.Token, Mode: e.Mode, Reason: e.Reason, Node: e.Node, Status: e.Status, Code: e.Code, Request: e.Call,
		})
	}
	return found, nil
}

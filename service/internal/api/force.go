// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/service/internal/principal"
)

// digits is a fencing token in a request: a string of decimal digits, as answers have it, or a JSON number.
type digits string

// UnmarshalJSON accepts both forms. A number keeps all its digits.
func (d *digits) UnmarshalJSON(data []byte) error {
	var number json.Number
	if err := json.Unmarshal(data, &number); err != nil {
		return errors.New("the token is not a number")
	}
	*d = digits(number)
	return nil
}

// Schema describes both forms.
func (digits) Schema(huma.Registry) *huma.Schema {
	text := &huma.Schema{Type: huma.TypeString, Pattern: "^[0-9]{1,19}$"}
	number := &huma.Schema{Type: huma.TypeInteger}
	text.PrecomputeMessages()
	number.PrecomputeMessages()
	return &huma.Schema{OneOf: []*huma.Schema{text, number}}
}

type forceRequest struct {
	Place
	Body struct {
		FencingToken digits `json:"fencingToken" doc:"Of the holder: a repeat cannot end the lease of its successor"`
		Reason       string `json:"reason" minLength:"1" maxLength:"512" doc:"The holder gets it"`
		Mode         string `json:"mode,omitempty" enum:"safe,now" default:"safe" doc:"safe notifies the holder and waits until it must have stopped. now releases immediately: only the fencing token protects the resource"`
	}
}

func (r *forceRequest) subject() subject {
	return subject{token: string(r.Body.FencingToken), mode: r.Body.Mode, reason: r.Body.Reason}
}

// forced is the answer to a forced release.
type forced struct {
	Status           string `json:"status" enum:"FORCE_RELEASED,REVOKED" doc:"REVOKED: the lock is free once the holder must have stopped"`
	LockKey          string `json:"lockKey"`
	Node             string `json:"node" doc:"Of the contender, in ZooKeeper"`
	Notified         bool   `json:"notified" doc:"The holder learns of it; the lock is free once it must have stopped"`
	ProtectedByToken bool   `json:"protectedByTokenOnly" doc:"The lock is free, and the holder may go on: only the fencing token protects the resource"`
	FencingToken     string `json:"fencingToken"`
}

func (g *forced) lease() (token, node string) { return g.FencingToken, g.Node }

var forceOperation = operation{
	name: "force-release", method: http.MethodPost, path: "/v1/locks/{namespace}/{key}/force-release",
	summary: "Release a lock without its holder", role: principal.Admin, audited: true, administrative: true,
	answers: map[int]any{200: forced{}},
}

func (a *API) registerForce() {
	register(a, forceOperation, a.forceRelease)
}

func (a *API) forceRelease(ctx context.Context, c *call, in *forceRequest) (*answer, error) {
	token, err := tokenOf(in.Body.FencingToken)
	if err != nil {
		return nil, err
	}
	return a.force(ctx, c, lease.Force{Token: token, Reason: in.Body.Reason, Mode: modeOf(in.Body.Mode)})
}

func modeOf(name string) lease.Mode {
	if name == "now" {
		return lease.Now
	}
	return lease.Safe
}

// force ends what is in front of the lock's queue.
func (a *API) force(ctx context.Context, c *call, f lease.Force) (*answer, error) {
	ctx, cancel := bound(ctx, 0)
	defer cancel()
	f.Path, f.By = c.path, c.principal.Name
	done, err := a.Locks.ForceRelease(ctx, f)
	if err != nil {
		return nil, err
	}
	a.noteForced(c, f, done)
	if done.TokenOnly {
		a.Holds.Ended(done.Node)
	}
	out := &forced{
		Status: "FORCE_RELEASED", LockKey: c.key, Node: done.Node, Notified: done.Notified, ProtectedByToken: done.TokenOnly,
		FencingToken: done.Token.String(),
	}
	if done.Notified {
		out.Status = "REVOKED"
	}
	return &answer{Status: http.StatusOK, Body: out}, nil
}

// tokenOf returns the fencing token of a request.
func tokenOf(d digits) (fencing.Token, error) {
	token, err := fencing.ParseToken(string(d))
	if err != nil || !token.Valid() {
		return 0, invalid("body.fencingToken", "the token is not a positive number")
	}
	return token, nil
}

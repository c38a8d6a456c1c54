// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/service/internal/principal"
)

// An election is a lock whose holder publishes a value. An election and a lock of the same name are one queue, as they
// are in the library.
type campaignRequest struct {
	Place
	Body struct {
		Terms
		Value string `json:"value,omitempty" maxLength:"4096" doc:"What the leader publishes: its address, for instance"`
	}
}

func (r *campaignRequest) subject() subject { return r.Body.subject() }

// leader is what may be known of an election.
type leader struct {
	ElectionKey  string `json:"electionKey"`
	Elected      bool   `json:"elected"`
	OwnerID      string `json:"ownerId,omitempty"`
	Value        string `json:"value,omitempty" doc:"What the leader published"`
	FencingToken string `json:"fencingToken,omitempty"`
	ExpiresAt    int64  `json:"expiresAt,omitempty" doc:"Informational: ms since the epoch"`
	Candidates   int    `json:"candidates" doc:"That wait"`
}

func (a *API) registerElections() {
	const path = "/v1/elections/{namespace}/{key}/"
	register(a, operation{
		name: "campaign", method: http.MethodPost, path: path + "campaign", summary: "Become the leader, as acquire does",
		role: principal.Client, audited: true, answers: map[int]any{200: grant{}, 202: waiting{}},
	}, func(ctx context.Context, c *call, in *campaignRequest) (*answer, error) {
		if len(in.Body.Value) > maxValue {
			return nil, invalid("body.value", "the value is over 4096 bytes")
		}
		return a.acquire(ctx, c, in.Body.Terms, lease.Request{Metadata: map[string]string{valueName: in.Body.Value}})
	})
	register(a, operation{
		name: "renew-term", method: http.MethodPost, path: path + "renew", summary: "Extend a term, as renew does",
		role: principal.Client, audited: true, answers: map[int]any{200: grant{}},
	}, func(ctx context.Context, c *call, in *renewRequest) (*answer, error) { return a.renew(ctx, c, in.Body) })
	register(a, operation{
		name: "resign", method: http.MethodPost, path: path + "resign", summary: "End a term, as release does",
		role: principal.Client, audited: true, answers: map[int]any{200: released{}},
	}, func(ctx context.Context, c *call, in *releaseRequest) (*answer, error) {
		return a.release(ctx, c, in.Body)
	})
	register(a, operation{
		name: "leader", method: http.MethodGet, path: path + "leader", summary: "Read the leader",
		answers: map[int]any{200: leader{}},
	}, func(ctx context.Context, c *call, _ *statusRequest) (*answer, error) {
		s, err := a.status(ctx, c)
		if err != nil {
			return nil, err
		}
		return &answer{Status: http.StatusOK, Body: leaderOf(c, s)}, nil
	})
	a.registerStream(operation{
		name: "observe", method: http.MethodGet, path: path + "observe",
		summary: "Follow an election, as server-sent events: the leader, and again after each change", answers: map[int]any{200: leader{}},
	}, "leader", func(c *call, s lease.Status) any { return leaderOf(c, s) })
}

func (l *leader) encodedSize() int {
	return 512 + encodedSize(l.ElectionKey) + encodedSize(l.OwnerID) + encodedSize(l.Value) // names of fields, numbers
}

// maxValue bounds what each contender must read.
const maxValue = 4096

func leaderOf(c *call, s lease.Status) *leader {
	d := describe(c.key, s)
	return &leader{
		ElectionKey: c.key, Elected: d.Locked, OwnerID: d.OwnerID, Value: d.Metadata[valueName], FencingToken: d.FencingToken,
		ExpiresAt: d.ExpiresAt, Candidates: d.QueueLength,
	}
}

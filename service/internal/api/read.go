// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/service/internal/key"
)

// maxPage bounds a page of a list: each lock on it costs two reads and more.
const maxPage = 1000

type statusRequest struct{ Place }

// followers are the last segments of routes that read more of a lock, all of which name its namespace. A caller that omits
// it has asked for a key of that name.
var followers = []string{"events", "history"}

// ListRequest selects a page of a list.
type ListRequest struct {
	Prefix string `query:"prefix" maxLength:"512" doc:"Only keys that begin with it"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Page   string `query:"page" maxLength:"4096" doc:"nextPage of the page before"`
}

type listByQuery struct {
	Namespace string `query:"namespace" required:"true"`
	ListRequest
}

// status is what may be known of a lock.
type status struct {
	LockKey      string            `json:"lockKey"`
	Locked       bool              `json:"locked" doc:"An expired lease that is not deleted yet is locked. A first contender that still waits is not"`
	OwnerID      string            `json:"ownerId,omitempty" doc:"Of the holder; for a holder that uses a library, its label"`
	FencingToken string            `json:"fencingToken,omitempty" doc:"Of the holder"`
	Kind         string            `json:"kind,omitempty" enum:"lease,session,foreign,persistent" doc:"lease: through this service. session: by the library. foreign: by another library. persistent: its node belongs to no session, and its record is not a lease's: it holds the lock until the node is deleted"`
	ExpiresAt    int64             `json:"expiresAt,omitempty" doc:"Of a lease, informational: ms since the epoch"`
	CreatedAt    int64             `json:"createdAt,omitempty" doc:"When the holder joined the queue, by the clock of its replica or its host: ms since the epoch"`
	UpdatedAt    int64             `json:"updatedAt,omitempty" doc:"When the record of the holder was written last, by ZooKeeper's clock: ms since the epoch"`
	Reentrancy   int               `json:"reentrancyCount,omitempty" doc:"Requests that share the lease; 1 unless they are reentrant"`
	Revoked      bool              `json:"revoked,omitempty" doc:"The holder was asked to stop"`
	Metadata     map[string]string `json:"metadata,omitempty"`
	QueueLength  int               `json:"queueLength" doc:"Contenders that wait"`
}

// page is a part of the locks of a namespace.
type page struct {
	Locks    []status `json:"locks"`
	NextPage string   `json:"nextPage,omitempty" doc:"Missing on the last page. A page before can have fewer locks than the limit, or none"`
}

func (a *API) registerReads() {
	register(a, operation{
		name: "status", method: http.MethodGet, path: "/v1/locks/{namespace}/{key}", summary: "Read a lock",
		answers: map[int]any{200: status{}},
	}, func(ctx context.Context, c *call, _ *statusRequest) (*answer, error) {
		out, err := a.readLock(ctx, c)
		if errors.Is(err, lease.ErrNotFound) && slices.Contains(followers, c.key) {
			p := refuse(err)
			p.Detail = "The path names a namespace and a key. What follows a lock is at /v1/locks/{namespace}/{key}/" + c.key + "."
			return nil, p
		}
		return out, err
	})
	register(a, operation{
		name: "list", method: http.MethodGet, path: "/v1/locks", summary: "List the locks of a namespace",
		answers: map[int]any{200: page{}},
	}, func(ctx context.Context, c *call, in *listByQuery) (*answer, error) {
		return a.list(ctx, c, in.ListRequest)
	})
}

func (a *API) readLock(ctx context.Context, c *call) (*answer, error) {
	s, err := a.status(ctx, c)
	if err != nil {
		return nil, err
	}
	return &answer{Status: http.StatusOK, Body: describe(c.key, s)}, nil
}

// status reads the queue of a lock. For a lock without contenders it is an error.
func (a *API) status(ctx context.Context, c *call) (lease.Status, error) {
	ctx, cancel := bound(ctx, 0)
	defer cancel()
	return a.Locks.Status(ctx, c.path)
}

func (a *API) list(ctx context.Context, c *call, in ListRequest) (*answer, error) {
	found, next, err := a.find(ctx, c, in)
	if err != nil {
		return nil, err
	}
	body := &page{Locks: make([]status, 0, len(found)), NextPage: next}
	for _, s := range found {
		// No request can reach a node that another program has created under a name that no key has.
		if name, ok := key.Decode(s.Path[strings.LastIndexByte(s.Path, '/')+1:]); ok {
			body.Locks = append(body.Locks, *describe(name, s))
		}
	}
	return &answer{Status: http.StatusOK, Body: body}, nil
}

// find reads the queues of a page of a namespace, and returns the name of the next page, empty on the last.
func (a *API) find(ctx context.Context, c *call, in ListRequest) (found []lease.Status, next string, err error) {
	after, err := base64.RawURLEncoding.DecodeString(in.Page)
	if err != nil || strings.ContainsAny(string(after), "/\x00") {
		return nil, "", invalid("query.page", "this is not the nextPage of another page").because(err)
	}
	ctx, cancel := bound(ctx, 0)
	defer cancel()
	found, next, err = a.Locks.List(ctx, a.Root+"/"+c.namespace, key.EncodePrefix(in.Prefix), min(in.Limit, maxPage), string(after))
	return found, base64.RawURLEncoding.EncodeToString([]byte(next)), err
}

// describe returns what may be known of a lock whose contenders were read.
func describe(name string, s lease.Status) *status {
	out := &status{LockKey: name}
	if len(s.Contenders) == 0 {
		return out
	}
	waiters := waitersOf(s)
	out.QueueLength = len(waiters) + s.More
	if len(waiters) == len(s.Contenders) {
		return out
	}
	front := s.Contenders[0]
	out.Locked, out.OwnerID, out.FencingToken, out.Kind = true, front.Owner, front.Token.String(), "foreign"
	out.Revoked = front.Revoked != nil
	switch {
	case front.Kind != "":
		out.Kind = string(front.Kind)
	case front.Session == 0:
		out.Kind = "persistent"
	}
	out.CreatedAt, out.UpdatedAt = millis(front.Since), millis(front.Written)
	if front.Kind == recipes.KindLease {
		out.Reentrancy = len(front.Lease.Requests)
		out.ExpiresAt = front.Written.Add(front.TTL).UnixMilli()
		out.Metadata = front.Lease.Metadata
	}
	return out
}

// waitersOf returns the contenders that wait. The first one of a lease waits until it is granted the lock, and its caller may have died.
func waitersOf(s lease.Status) []lease.Contender {
	if front := s.Contenders[0]; front.Lease != nil && !front.Held {
		return s.Contenders
	}
	return s.Contenders[1:]
}

func (p *page) encodedSize() (size int) {
	for _, s := range p.Locks {
		size += s.encodedSize()
	}
	return size
}

func (s *status) encodedSize() int {
	size := 512 + encodedSize(s.LockKey) + encodedSize(s.OwnerID) // names of fields, numbers
	for name, value := range s.Metadata {
		size += encodedSize(name) + encodedSize(value)
	}
	return size
}

// encodedSize returns an upper bound of the bytes that a string has in JSON: some characters become six.
func encodedSize(s string) int {
	size := len(s) + len(`"":,`)
	for _, r := range s {
		if r < ' ' || r == '"' || r == '\\' || r == utf8.RuneError || r == '\u2028' || r == '\u2029' {
			size += 5
		}
	}
	return size
}

// millis returns a time in ms since the epoch, 0 if it is not known.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/lockkeeper/lockkeeper/service/internal/audit"
	"github.com/lockkeeper/lockkeeper/service/internal/limit"
	"github.com/lockkeeper/lockkeeper/service/internal/principal"
)

// A call is one request, and what is known of it before its handler runs.
type call struct {
	id       string
	received time.Time // before the body was read: the sender began to send no later
	remote   string
	pattern  string // of the route
	action   string // what it does, for the audit and the metrics
	// connection carries the answer, whose time a long wait extends.
	connection *http.ResponseController

	request   *http.Request        // whose credentials identify the caller
	principal *principal.Principal // nil until the caller is identified
	namespace string
	key       string
	path      string // of the lock's node

	// written is called, if it is not nil, once the answer was written, or its connection has ended.
	written func()
	// after writes the answer once the request was routed, if that takes long: the router's frames would keep the stack of
	// each of thousands of streams large.
	after    func()
	problem  *Problem // the answer, if it is a refusal
	unlogged bool     // the log would be full of such calls
	slashKey bool     // the mux got a stand-in for the key /
}

type callKey struct{}

func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// An operation is one route.
type operation struct {
	name, method, path, summary string

	action         string         // of its audit and metrics, if other routes do the same; otherwise the name
	namespace      string         // in which a route without one has its keys
	contract       bool           // has one of the contracts of others, whose refusals have other statuses
	role           principal.Role // who may call it; empty: every role
	audited        bool
	administrative bool        // recorded before it is carried out, or else refused
	everywhere     bool        // needs no namespace
	answers        map[int]any // an example of the body for each status that is no refusal
}

// purpose returns whose budget a request of the operation counts in: a loop of refused acquires must not keep the other programs
// of the principal from renewing their leases.
func (op operation) purpose() limit.Purpose {
	switch cmp.Or(op.action, op.name) {
	case "renew", "renew-term", "release", "resign":
		return limit.Keeping
	case "status", "leader":
		return limit.Looking
	}
	return limit.Any
}

// renewed reports whether the call has extended a lease: what happens most often, and is of least interest.
func (c *call) renewed() bool {
	return c.problem == nil && (c.action == "renew" || c.action == "renew-term")
}

// answerWithin bounds the time until the answer is written. The server's own bound is shorter than a long wait.
func (c *call) answerWithin(d time.Duration) error {
	err := c.connection.SetWriteDeadline(time.Now().Add(d))
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// A sized body can be large.
type sized interface {
	encodedSize() int // an upper bound of its bytes in JSON
}

// countUnread counts the bytes of the answer to a call until it was written, or refuses it: its principal has too many to read.
func (a *API) countUnread(c *call, purpose limit.Purpose, bytes int) *Problem {
	written, ok := a.limiter.Answer(c.principal.Name, purpose, bytes)
	if !ok {
		return problem(TooManyRequests, "Read the answers to earlier requests first.").retryAfter(time.Second)
	}
	c.written = written
	return nil
}

// An answer is the status and the body that a handler returns.
type answer struct {
	Status int
	Body   any
}

// register adds a route whose handler gets an admitted call and a valid request. I is a struct of parameters and body.
func register[I any](a *API, op operation, handle handler[I]) {
	registered := a.operation(op)
	huma.Register(a.huma, registered, func(ctx context.Context, in *I) (*answer, error) {
		out, p := perform(ctx, a, op, in, handle)
		if p != nil {
			return out, p
		}
		return out, nil
	})
}

// A handler carries out an admitted call with a valid request.
type handler[I any] func(ctx context.Context, c *call, in *I) (*answer, error)

// perform runs a handler, notes a refusal in the call, and audits.
func perform[I any](ctx context.Context, a *API, op operation, in *I, handle handler[I]) (*answer, *Problem) {
	c := callOf(ctx)
	end := func(audit.Event) {}
	if err := a.Ready(); err != nil {
		// The attempt would take as long as the request may, and tie up the caller.
		c.problem = problem(Unavailable, "No quorum of the ZooKeeper ensemble has answered recently. Repeat the request, with the same requestId.").
			retryAfter(unavailableRetry).because(err)
	} else if op.administrative {
		end, c.problem = a.beginAction(ctx, c, in)
	}
	var out *answer
	if c.problem == nil {
		var err error
		if out, err = handle(ctx, c, in); err != nil {
			c.problem = refuseCall(ctx, err)
		} else if body, ok := out.Body.(sized); ok {
			c.problem = a.countUnread(c, op.purpose(), body.encodedSize())
		}
	}
	if op.contract && c.problem != nil {
		c.problem.contract(c.action)
	}
	if op.audited && (a.AuditRenewals || !c.renewed()) {
		e := eventOf(c, in, out)
		a.audit(ctx, e)
		end(e)
	}
	return out, c.problem
}

// refuseCall returns the problem of an error of a call with the context ctx.
func refuseCall(ctx context.Context, err error) *Problem {
	p := refuse(err)
	if p.Code == Unavailable && ctx.Err() != nil {
		// The outcome is as unknown, but no failure of the service: the handler's own bound does not end ctx.
		p = problem(CallerGone, "").because(err)
	}
	return p
}

// operation returns the description of a route, for the router and for the OpenAPI document.
func (a *API) operation(op operation) huma.Operation {
	schemas := a.huma.OpenAPI().Components.Schemas
	schema := func(v any) *huma.Schema { return schemas.Schema(reflect.TypeOf(v), true, "") }
	responses := map[string]*huma.Response{
		"default": {Description: "A refusal", Content: map[string]*huma.MediaType{problemType: {Schema: schema(Problem{})}}},
	}
	for status, body := range op.answers {
		responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status),
			Content:     map[string]*huma.MediaType{"application/json": {Schema: schema(body)}},
		}
	}
	return huma.Operation{
		OperationID: op.name, Method: op.method, Path: op.path, Summary: op.summary, Responses: responses,
		Middlewares:  huma.Middlewares{a.admit(op)},
		Security:     []map[string][]string{{"bearer": {}}, {"mutualTLS": {}}},
		MaxBodyBytes: -1, BodyReadTimeout: -1, // admit bounds both
	}
}

// bound returns a context for one request that waits for at most wait.
func bound(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, wait+callTimeout, errors.New("the request took too long"))
}

// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/lockkeeper/lockkeeper/service/internal/key"
)

// admit returns the middleware that runs before a request is parsed: it identifies the caller, checks what the caller
// may do, and reads the body within the caller's limits. A caller that is refused learns nothing about locks.
func (a *API) admit(op operation) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(ctx)
		body, p := a.enter(op, w, r)
		if p != nil {
			p.write(w)
			return
		}
		next(&bodyContext{humaContext: ctx, body: body})
	}
}

// enter checks a request, and notes and audits a refusal.
func (a *API) enter(op operation, w http.ResponseWriter, r *http.Request) (io.Reader, *Problem) {
	c := callOf(r.Context())
	c.action = cmp.Or(op.action, op.name)
	body, p := a.check(op, c, w, r)
	if p != nil {
		c.problem = p
		// A stranger, or a caller beyond its rate, must not fill the disk.
		if op.audited && c.principal != nil && p.Code != TooManyRequests {
			a.audit(r.Context(), eventOf(c, nil, nil))
		}
	}
	return body, p
}

func (a *API) check(op operation, c *call, w http.ResponseWriter, r *http.Request) (io.Reader, *Problem) {
	if p := a.identify(c, op, r); p != nil {
		return nil, p
	}
	if p := c.locate(op, a.Root, r); p != nil {
		return nil, p
	}
	if op.role != "" && !c.principal.Has(op.role) {
		return nil, problem(Forbidden, fmt.Sprintf("This needs the role %s.", op.role))
	}
	return readBody(w, r, c.principal.Limits.BodyBytes)
}

// identify notes the principal of a request, and counts the request. Valid credentials are accepted whatever their address has
// sent before: behind a proxy, all callers have one address, and a stranger must not lock them out.
func (a *API) identify(c *call, op operation, r *http.Request) *Problem {
	who, err := a.Principals.Get().Identify(r)
	if err != nil {
		if delay := a.strangers.Allow(c.remote); delay > 0 {
			c.unlogged = true
			return problem(TooManyRequests, "").retryAfter(delay)
		}
		return problem(Unauthenticated, "").because(err)
	}
	c.request, c.principal = r, who
	if delay := a.limiter.Allow(who.Name, who.Limits, op.purpose(), a.Holds.Of(who.Name)); delay > 0 {
		return problem(TooManyRequests, "").retryAfter(delay)
	}
	return nil
}

// locate notes the namespace and the key of the request, and returns what is wrong with them.
func (c *call) locate(op operation, root string, r *http.Request) *Problem {
	namespace, where := cmp.Or(op.namespace, r.PathValue("namespace")), "path.namespace"
	if namespace == "" {
		namespace, where = r.URL.Query().Get("namespace"), "query.namespace"
	}
	if namespace == "" && op.everywhere {
		return nil
	}
	badNamespace := key.CheckNamespace(namespace)
	if badNamespace == nil {
		c.namespace = namespace
	}
	// First the permission: it is refused for a namespace that cannot exist as for any other.
	if !c.principal.MayUse(namespace) {
		detail := "The principal may not use this namespace."
		if op.namespace != "" {
			detail = "The principal may not use the namespace " + op.namespace + ", in which the keys of paths without a namespace are."
		}
		return problem(Forbidden, detail)
	}
	if badNamespace != nil {
		return invalid(where, badNamespace.Error())
	}
	parameter, name := keyOf(r)
	if name != "" {
		if err := key.Check(name); err != nil {
			return invalid("path."+parameter, err.Error())
		}
		if limit := c.principal.Limits.KeyBytes; len(name) > limit {
			return invalid("path."+parameter, fmt.Sprintf("key of %d bytes is over the limit of %d", len(name), limit))
		}
		c.key, c.path = name, root+key.Path(namespace, name)
	}
	return nil
}

// keyOf returns the key in the path of a request, and what its route calls it.
func keyOf(r *http.Request) (parameter, name string) {
	for _, parameter := range []string{"key", "lockKey", "lock_name"} {
		if name := r.PathValue(parameter); name != "" {
			// A namespace with slashes is refused, so that they are in the place of the key.
			if name == "//" && callOf(r.Context()).slashKey {
				name = "/"
			}
			return parameter, name
		}
	}
	return "", ""
}

// readBody reads the body of a request. The connection's read deadline bounds it; from then on the connection may be
// silent for as long as the request waits, and only its end cancels the request's context.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) (io.Reader, *Problem) {
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, problem(BodyTimeout, "").because(err)
	case err != nil:
		return nil, problem(Malformed, "The body ended early.").because(err)
	}
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, problem(Internal, "").because(fmt.Errorf("lift the read deadline: %w", err))
	}
	return bytes.NewReader(body), nil
}

func tooLarge(limit int64) *Problem {
	return problem(BodyTooLarge, fmt.Sprintf("The limit is %d bytes.", limit))
}

// humaContext has another name than the method Context that it contains, so that it can be embedded.
type humaContext huma.Context

// A bodyContext is a request whose body was read already.
type bodyContext struct {
	humaContext
	body io.Reader
}

// BodyReader returns the body.
func (c *bodyContext) BodyReader() io.Reader { return c.body }

// Unwrap returns the context of the router.
func (c *bodyContext) Unwrap() huma.Context { return c.humaContext }

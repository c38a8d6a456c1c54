// SPDX-License-Identifier: Apache-2.0

package httpfence

import (
	"context"
	"errors"
	"net/http"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// A Guard decides whether the holder of token may still write resource: it returns nil to admit the token, and a
// [*fencing.StaleError] or a [*fencing.HistoryError] to refuse it. [fencing.HistoryFromContext] returns the token's history.
// Calls may be concurrent.
type Guard interface {
	Admit(ctx context.Context, resource string, token fencing.Token) error
}

// A GuardFunc is a function that implements [Guard].
type GuardFunc func(ctx context.Context, resource string, token fencing.Token) error

// Admit calls f.
func (f GuardFunc) Admit(ctx context.Context, resource string, token fencing.Token) error {
	return f(ctx, resource, token)
}

// Options are the options of Protect. The zero value of a field means its default.
type Options struct {
	_ struct{}

	// Failed is called with the guard's error when a request is answered with 503, because the response does not disclose
	// the error. Default: the error is dropped.
	Failed func(r *http.Request, err error)
}

// RequireToken returns a handler that answers a request without a token with 428, and one with a malformed token or history
// with 400. It passes other requests to next, with the token and the history in the request's context: see
// [fencing.TokenFromContext] and [fencing.HistoryFromContext]. It checks nothing else: the store that next writes to does. It panics if next is nil.
//
// The preflight request of a browser, an OPTIONS request with Access-Control-Request-Method, carries no token and writes
// nothing: RequireToken passes it to next. To let scripts send the token, next allows the headers [Header] and
// [HistoryHeader] in its answer.
func RequireToken(next http.Handler) http.Handler {
	if next == nil {
		panic("httpfence: RequireToken: the handler is nil")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isPreflight(r) {
			// A token in the context of an outer handler does not belong to this request.
			next.ServeHTTP(w, r.WithContext(fencing.WithHistory(fencing.WithToken(r.Context(), 0), "")))
			return
		}
		token, err := parse(r.Header)
		if errors.Is(err, errMissing) {
			write(w, problem{
				Title: "Fencing token required", Status: http.StatusPreconditionRequired,
				Detail: "Send the token of your lock in the header " + Header + ".",
			})
			return
		}
		if Refuse(w, err) {
			return
		}
		history, err := parseHistory(r.Header)
		if err != nil {
			write(w, problem{
				Title: "Invalid fencing history", Status: http.StatusBadRequest,
				Detail: HistoryHeader + ": " + err.Error(),
			})
			return
		}
		// Set an empty history, too: a history in the context of an outer handler belongs to another token.
		next.ServeHTTP(w, r.WithContext(fencing.WithHistory(fencing.WithToken(r.Context(), token), history)))
	})
}

// isPreflight reports whether r is the request by which a browser asks for permission to send another one.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// Protect returns a handler that requires a token as [RequireToken] does and consults guard before it passes a request to
// next. The function resource returns the name of the resource that a request writes: one name for one lock path. Protect
// answers the guard's refusals as [Refuse] does, and its other errors with 503. opts may be nil.
//
// The guard decides before next writes; the package comment describes the window that this leaves.
//
// A nil guard, function or handler is an error: a server without its guard must not start.
func Protect(next http.Handler, guard Guard, resource func(*http.Request) string, opts *Options) (http.Handler, error) {
	if f, isFunc := guard.(GuardFunc); guard == nil || isFunc && f == nil {
		return nil, errors.New("httpfence: protect: the guard is nil")
	}
	if resource == nil {
		return nil, errors.New("httpfence: protect: the resource function is nil")
	}
	if next == nil {
		return nil, errors.New("httpfence: protect: the handler is nil")
	}
	failed := func(*http.Request, error) {}
	if opts != nil && opts.Failed != nil {
		failed = opts.Failed
	}
	return RequireToken(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isPreflight(r) {
			next.ServeHTTP(w, r)
			return
		}
		err := guard.Admit(r.Context(), resource(r), fencing.TokenFromContext(r.Context()))
		switch {
		case err == nil:
			next.ServeHTTP(w, r)
		case !Refuse(w, err):
			failed(r, err)
			write(w, problem{
				Title: "Fencing token not checked", Status: http.StatusServiceUnavailable,
				Detail: "The guard could not check the token. The request was not served.",
			})
		}
	})), nil
}

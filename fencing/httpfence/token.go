// SPDX-License-Identifier: Apache-2.0

package httpfence

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/lockkeeper/lockkeeper/fencing"
)

const (
	// Header is the name of the header that carries the token, in the form that [fencing.Token.String] writes.
	Header = "Fencing-Token"

	// HistoryHeader is the name of the header that carries the id of the history in which the token was granted.
	HistoryHeader = "Fencing-History"
)

type (
	tokenKey   struct{}
	historyKey struct{}
)

// WithToken returns a context whose requests carry token when a [Transport] sends them. On a server, [RequireToken] and
// [Protect] store the token of the request being served in its context.
func WithToken(ctx context.Context, token fencing.Token) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// Token returns the token in ctx, or zero, which is invalid, if there is none. A handler behind [RequireToken] or [Protect]
// gets a valid token from its request's context. A handler that passes the context on to its own request passes on the token
// too.
func Token(ctx context.Context) fencing.Token {
	token, _ := ctx.Value(tokenKey{}).(fencing.Token)
	return token
}

// WithHistory returns a context whose requests carry, when a [Transport] sends them, the id of the history in which their
// token was granted: the id that Client.History of package recipes returns. On a server, [RequireToken] and [Protect] store
// the id of the request being served in its context.
func WithHistory(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, historyKey{}, id)
}

// History returns the history id in ctx, or the empty string, with which guards check no history, if there is none. A
// handler passes it to the guard of its store, in the options of a guard that it creates for the request.
func History(ctx context.Context) string {
	id, _ := ctx.Value(historyKey{}).(string)
	return id
}

// errMissing is for a request without the header.
var errMissing = errors.New("the request has no " + Header + " header")

// parse returns the token in header. Several tokens are an error, even if they are equal: a server that checks the first and
// one that checks the last could disagree.
func parse(header http.Header) (fencing.Token, error) {
	switch values := header.Values(Header); len(values) {
	case 0:
		return 0, errMissing
	case 1:
		return fencing.ParseToken(values[0])
	default:
		return 0, fmt.Errorf("%d %s headers: %w", len(values), Header, fencing.ErrInvalid)
	}
}

// parseHistory returns the history id in header, or the empty string if there is none.
func parseHistory(header http.Header) (string, error) {
	switch values := header.Values(HistoryHeader); len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], fencing.CheckHistory(values[0])
	default:
		return "", fmt.Errorf("the request has %d %s headers", len(values), HistoryHeader)
	}
}

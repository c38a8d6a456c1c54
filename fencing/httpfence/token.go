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

// WithToken returns a context whose requests carry token when a [Transport] sends them. On a server it holds the token
// of the request being served, put there by [RequireToken] or [Protect].
func WithToken(ctx context.Context, token fencing.Token) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// Token returns the token that ctx holds, or zero, which is invalid, if there is none. A handler behind [RequireToken] or
// [Protect] gets a valid one from its request's context. A handler that passes the context on to a request of its own
// passes on the token too.
func Token(ctx context.Context) fencing.Token {
	token, _ := ctx.Value(tokenKey{}).(fencing.Token)
	return token
}

// WithHistory returns a context whose requests say that their token was granted in the history with this id, when a
// [Transport] sends them: the one that Client.History of package recipes returns. On a server it holds that of the request
// being served, put there by [RequireToken] or [Protect].
func WithHistory(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, historyKey{}, id)
}

// History returns the id of the history that ctx holds, or the empty string, with which guards check no history, if there
// is none. A handler passes it to the guard of its store, in the options of a guard that it makes for the request.
func History(ctx context.Context) string {
	id, _ := ctx.Value(historyKey{}).(string)
	return id
}

// errMissing is for a request without the header.
var errMissing = errors.New("the request has no " + Header + " header")

// parse returns the token in header. Several are an error, even alike: a server that checks the first and one that checks
// the last would not agree.
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

// parseHistory returns the history in header, or the empty string if there is none.
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

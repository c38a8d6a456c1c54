// SPDX-License-Identifier: Apache-2.0

package httpfence

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// Header is the name of the header that carries the token, in the form that [fencing.Token.String] writes.
const Header = "Fencing-Token"

type tokenKey struct{}

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

// errMissing is for a request without the header.
var errMissing = errors.New("the request has no " + Header + " header")

// parse returns the token in header. Several are an error, even alike: one who checks the first and one who checks the
// last would not agree.
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

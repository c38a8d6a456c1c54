// SPDX-License-Identifier: Apache-2.0

package grpcfence

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/metadata"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// The metadata keys of a call.
const (
	TokenKey   = "fencing-token"   // the token, as [fencing.Token.String] writes it
	HistoryKey = "fencing-history" // the id of the history in which the token was granted; optional
)

type (
	tokenKey   struct{}
	historyKey struct{}
)

// WithToken returns a context whose calls carry token. On a server, the interceptors store the token of the call that is
// being served in its context.
func WithToken(ctx context.Context, token fencing.Token) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// Token returns the token in ctx, or zero, which is invalid, if there is none. A handler behind a [Server] gets a valid
// token. A handler that passes its context on to its own call passes on the token too.
func Token(ctx context.Context) fencing.Token {
	token, _ := ctx.Value(tokenKey{}).(fencing.Token)
	return token
}

// WithHistory returns a context whose calls carry the id of a history beside the token. On a server, the interceptors store
// the id of the call that is being served in its context.
func WithHistory(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, historyKey{}, id)
}

// History returns the history id in ctx, or "" if there is none.
func History(ctx context.Context) string {
	id, _ := ctx.Value(historyKey{}).(string)
	return id
}

// errMissing is the error of a call without a token.
var errMissing = errors.New("the call has no " + TokenKey + " metadata")

// errHistory is the error of a call whose history metadata is not exactly one history id.
var errHistory = errors.New("the metadata " + HistoryKey + " is not one history id")

// parse returns the token and the history in md. Several values of one key are an error, even if they are equal: a server
// that checks the first and a store that checks the last could disagree.
func parse(md metadata.MD) (token fencing.Token, history string, err error) {
	switch values := md.Get(TokenKey); len(values) {
	case 0:
		return 0, "", errMissing
	case 1:
		token, err = fencing.ParseToken(values[0])
	default:
		err = fmt.Errorf("%d values of %s: %w", len(values), TokenKey, fencing.ErrInvalid)
	}
	if err != nil {
		return 0, "", err
	}
	switch values := md.Get(HistoryKey); len(values) {
	case 0:
	case 1:
		history = values[0]
		if err := fencing.CheckHistory(history); err != nil {
			return 0, "", fmt.Errorf("%w: %w", errHistory, err)
		}
	default:
		return 0, "", fmt.Errorf("%w: it has %d values", errHistory, len(values))
	}
	return token, history, nil
}

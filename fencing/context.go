// SPDX-License-Identifier: Apache-2.0

package fencing

import "context"

type (
	tokenKey   struct{}
	historyKey struct{}
)

// WithToken returns a context that carries token: the packages that send tokens, httpfence and grpcfence, send it along with
// each call that is made with the context. On a server they store the token of the call being served in its context, so that
// a handler that passes the context on to its own call passes on the token too, over either protocol.
func WithToken(ctx context.Context, token Token) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// TokenFromContext returns the token that ctx carries, or zero, which is invalid, if there is none. See [WithToken].
func TokenFromContext(ctx context.Context) Token {
	token, _ := ctx.Value(tokenKey{}).(Token)
	return token
}

// WithHistory returns a context that carries, beside its token, the id of the history in which the token was granted: the id
// that Client.History of package recipes returns. See [WithToken].
func WithHistory(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, historyKey{}, id)
}

// HistoryFromContext returns the history id that ctx carries, or the empty string, with which guards check no history, if
// there is none. A handler passes it to the guard of its store, in the options of a guard that it creates for the call.
func HistoryFromContext(ctx context.Context) string {
	id, _ := ctx.Value(historyKey{}).(string)
	return id
}

// SPDX-License-Identifier: Apache-2.0

package fencing

import "context"

type (
	tokenKey   struct{}
	historyKey struct{}
)

// WithToken returns a context that carries token: the packages that send tokens, httpfence and grpcfence, send it along with
// each call that is made with the context. On a server they store the token of the call being served in its context, so that
// a handler that passes the context on to its own call passes on the token too, over either protocol. A history that was added beside
// another token is not that of this one, and is dropped: call [WithHistory] after it.
func WithToken(ctx context.Context, token Token) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// TokenFromContext returns the token that ctx carries, or zero, which is invalid, if there is none. See [WithToken].
func TokenFromContext(ctx context.Context) Token {
	token, _ := ctx.Value(tokenKey{}).(Token)
	return token
}

// A history is the id of the history of a token.
type history struct {
	id    string
	token Token // of the context when the id was added, zero if it had none
}

// WithHistory returns a context that carries, beside its token, the id of the history in which the token was granted: the id
// that Client.History of package recipes returns. If ctx has no token, the id belongs to tokens that are added later. See
// [WithToken].
func WithHistory(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, historyKey{}, history{id, TokenFromContext(ctx)})
}

// HistoryFromContext returns the id of the history of ctx's token, or the empty string, with which guards check no history, if
// there is none. A handler passes it to the guard of its store, in the options of a guard that it creates for the call.
func HistoryFromContext(ctx context.Context) string {
	h, _ := ctx.Value(historyKey{}).(history)
	if h.token != 0 && h.token != TokenFromContext(ctx) {
		return "" // with it, a guard could admit a token that it should refuse
	}
	return h.id
}

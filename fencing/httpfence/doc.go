// SPDX-License-Identifier: Apache-2.0

// Package httpfence carries fencing tokens over HTTP, so that a service can refuse the requests of clients that no longer
// hold the lock.
//
// The header [Header] carries the token as decimal digits; the header [HistoryHeader], which is optional, carries the id of
// the history in which it was granted. A client sends both with [Transport]. A server reads them with [RequireToken], or
// reads them and consults a guard with [Protect]. Instead of serving a request, the server may answer:
//
//	428  the request has no token, and needs one
//	400  a header is not exactly one token or one history id, or the guard reports the token as invalid
//	409  the token is stale: a newer one has been admitted; the response names both
//	409  the token is of another history than the stored one; the response names both histories
//	503  the guard could not check the token
//
// Each of these responses is a problem document (RFC 9457). The two 409s have the types [StaleType] and [HistoryType]; in Go,
// [Refusal] converts them to a [*fencing.StaleError] or a [*fencing.HistoryError], if they are about the token that the client
// sent: a server can relay a refusal of its own token by a server behind it.
//
// # Histories
//
// The history id arrives with the request, and the guard of a store takes it as an option. A guard of packages sqlfence,
// objectfence and redisfence needs no memory of its own, so a handler creates one for each request:
//
//	guard, err := redisfence.New(eval, &redisfence.Options{History: fencing.HistoryFromContext(r.Context())})
//
// A server that requires histories must itself refuse a request for which [fencing.HistoryFromContext] returns the empty string:
// the guard would only compare its token.
//
// # What it does not promise
//
//   - A guard that [Protect] consults decides, and then the handler writes. Between the two, a newer request can be admitted
//     and write, and the older request's write lands after it. If the handler writes to a store that checks tokens, use
//     [RequireToken], pass the token of [fencing.TokenFromContext] to the store within its transaction, and answer the
//     store's refusal with [Refuse]. Protect alone narrows the window and does not close it, unless the handler is the only
//     writer and checks once more under its own lock.
//   - A request whose response was lost may have been served.
//   - A token is for one resource. A redirect does not carry it to another host: see [ErrRedirected].
package httpfence

// SPDX-License-Identifier: Apache-2.0

// Package httpfence carries fencing tokens over HTTP, so that a service can refuse the requests of clients that no longer
// hold the lock.
//
// The token travels as decimal digits in the header [Header], and the id of the history in which it was granted in the
// header [HistoryHeader], which is optional. A client sends them with [Transport]; a server takes them with
// [RequireToken], or takes them and asks a guard with [Protect]. What a server answers instead of serving the request:
//
//	428  there is no token, and the request needs one
//	400  a header is not one token or one history, or the guard calls the token invalid
//	409  the token is stale: a newer one has been admitted; the answer names both
//	409  the token is of another history than those that were admitted; the answer names both histories
//	503  the guard could not be asked
//
// Each is a problem document (RFC 9457). Any client can tell the 409s by their types, [StaleType] and [HistoryType]; in
// Go, [Refusal] makes a [*fencing.StaleError] or a [*fencing.HistoryError] of them. A client believes a refusal only of
// what it has sent: a server can pass on that of a server behind it, about a token of its own.
//
// # Histories
//
// The history comes with the request, and the guard of a store takes it as an option. The guards of packages sqlfence,
// objectfence and redisfence keep nothing in memory, so a handler makes one for the request:
//
//	guard, err := redisfence.New(eval, &redisfence.Options{History: httpfence.History(r.Context())})
//
// A server that requires histories of its clients answers a request for which [History] returns the empty string itself:
// the guard would check it by the order of its token only.
//
// # What it does not promise
//
//   - A guard that [Protect] asks decides, then the handler writes. Between the two a newer request can be admitted and
//     write, and the older one's write lands after it. Where the handler writes to a store that checks, use
//     [RequireToken], hand [Token] to the store within its transaction, and answer its refusal with [Refuse]. Protect
//     alone narrows the window and does not close it, unless the handler is the only one to write and asks once more
//     under a lock of its own.
//   - A server that does not ask is not protected by clients that send.
//   - A token is a number, not a secret. It says nothing about who sent the request.
//   - A request whose answer was lost may have been served. The error is the one of the connection, never that of a stale
//     token.
//   - A token is for one resource. It is not taken along to another host by a redirect: see [ErrRedirected].
package httpfence

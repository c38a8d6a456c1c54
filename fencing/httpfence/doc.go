// SPDX-License-Identifier: Apache-2.0

// Package httpfence carries fencing tokens over HTTP, so that a service can refuse the requests of those who no longer
// hold the lock.
//
// The token travels as decimal digits in the header [Header]. A client sends it with [Transport]; a server takes it with
// [RequireToken], or takes it and asks a guard with [Protect]. What a server answers instead of serving the request:
//
//	428  there is no token, and the request needs one
//	400  the header is not one token, or the guard calls it invalid
//	409  the token is stale: a newer one has been admitted; the answer names both
//	503  the guard could not be asked
//
// Each is a problem document (RFC 9457). Any client can tell the 409 by its type, [StaleType]; in Go, [Stale] makes a
// [*fencing.StaleError] of it.
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
package httpfence

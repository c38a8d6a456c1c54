// SPDX-License-Identifier: Apache-2.0

// Package grpcfence carries fencing tokens over gRPC, so that a service can refuse the calls of clients that no longer hold
// the lock.
//
// The metadata key [TokenKey] carries the token as decimal digits; [HistoryKey] carries the id of the history in which it
// was granted. A client sends both with its interceptors:
//
//	conn, err := grpc.NewClient(target, credentials,
//		grpc.WithUnaryInterceptor(grpcfence.UnaryClientInterceptor),
//		grpc.WithStreamInterceptor(grpcfence.StreamClientInterceptor))
//	…
//	_, err = ledger.Put(fencing.WithToken(ctx, hold.Token()), entry)
//	var stale *fencing.StaleError
//	if errors.As(err, &stale) { // the lock is lost
//
// A server requires the token with a [Server], whose handlers read both with [fencing.TokenFromContext] and
// [fencing.HistoryFromContext]:
//
//	fence, err := grpcfence.NewServer(nil)
//	…
//	server := grpc.NewServer(grpc.UnaryInterceptor(fence.Unary), grpc.StreamInterceptor(fence.Stream))
//
// # Refusals
//
// Each refusal is a status with a google.rpc.ErrorInfo, whose domain is [Domain]. Status, reason and metadata:
//
//	FAILED_PRECONDITION  STALE_FENCING_TOKEN        token, newest: a newer token has been admitted
//	FAILED_PRECONDITION  OTHER_FENCING_HISTORY      token, history, stored: the token is of another history
//	INVALID_ARGUMENT     FENCING_TOKEN_REQUIRED     the call carries no token
//	INVALID_ARGUMENT     INVALID_FENCING_TOKEN      the metadata does not hold exactly one token
//	INVALID_ARGUMENT     INVALID_FENCING_HISTORY    the metadata does not hold exactly one history id
//	UNAVAILABLE          FENCING_TOKEN_NOT_CHECKED  the guard failed; nothing was delivered
//	ABORTED              FENCING_TOKEN_NOT_CHECKED  the guard failed; earlier messages were delivered
//
// The client's interceptors return an error that has this status and wraps its meaning: a [fencing.StaleError], a
// [fencing.HistoryError], or [fencing.ErrInvalid]. They do so only if the refusal is about the token that was sent: a server
// that relays the refusal of another call does not make a rightful holder conclude that it has lost its lock.
//
// # What it does not promise
//
//   - A guard that a [Server] consults decides, and then the handler writes. Between the two, a newer call can be admitted
//     and write, and the older call's write lands after it. If the handler writes to a store that checks tokens, configure
//     the Server without a guard, pass the token to the store within its transaction, and return the store's error.
//   - In a stream, the guard decides on each message that the handler receives. A handler that writes without receiving one
//     writes unchecked.
//   - A call whose reply was lost may have been served.
package grpcfence

// SPDX-License-Identifier: Apache-2.0

// Package grpcfence carries fencing tokens over gRPC, so that a service can refuse the calls of clients that no longer hold
// the lock.
//
// The token travels as decimal digits in the metadata key [TokenKey], the id of the history that it was granted in under
// [HistoryKey]. A client sends both with its interceptors:
//
//	conn, err := grpc.NewClient(target, credentials,
//		grpc.WithUnaryInterceptor(grpcfence.UnaryClientInterceptor),
//		grpc.WithStreamInterceptor(grpcfence.StreamClientInterceptor))
//	…
//	_, err = ledger.Put(grpcfence.WithToken(ctx, hold.Token()), entry)
//	var stale *fencing.StaleError
//	if errors.As(err, &stale) { // the lock is lost
//
// A server requires them with a [Server], whose handlers get them with [Token] and [History]:
//
//	fence, err := grpcfence.NewServer(nil)
//	…
//	server := grpc.NewServer(grpc.UnaryInterceptor(fence.Unary), grpc.StreamInterceptor(fence.Stream))
//
// # What a server answers
//
// Each refusal is a status with a google.rpc.ErrorInfo, whose domain is [Domain]. Its reason, and its metadata:
//
//	FAILED_PRECONDITION  STALE_FENCING_TOKEN        token, newest: a newer token has been admitted
//	FAILED_PRECONDITION  OTHER_FENCING_HISTORY      token, history, stored: the token is of another history
//	INVALID_ARGUMENT     FENCING_TOKEN_REQUIRED     the call carries no token
//	INVALID_ARGUMENT     INVALID_FENCING_TOKEN      the metadata does not hold one token
//	INVALID_ARGUMENT     INVALID_FENCING_HISTORY    the metadata does not hold one history id
//	UNAVAILABLE          FENCING_TOKEN_NOT_CHECKED  the guard failed; the handler did not run
//
// The client's interceptors return an error that has this status and wraps its meaning: a [fencing.StaleError], a
// [fencing.HistoryError], or [fencing.ErrInvalid]. They do so only if the refusal names the token that was sent: a server
// that relays the refusal of another call does not make a rightful holder believe that it lost its lock.
//
// # What it does not promise
//
//   - A guard that a [Server] asks decides, then the handler writes. Between the two a newer call can be admitted and
//     write, and the older one's write lands after it. Where the handler writes to a store that checks, give the Server no
//     guard, hand the token to the store within its transaction, and return the store's error.
//   - In a stream, the guard is asked for each message that the handler receives. A handler that writes without receiving
//     writes unchecked.
//   - A server that does not ask is not protected by clients that send.
//   - A token is a number, not a secret. It does not say who sent the call.
//   - A call whose answer was lost may have been served. Its error is that of the connection, never that of a stale token.
package grpcfence

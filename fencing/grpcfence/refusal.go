// SPDX-License-Identifier: Apache-2.0

package grpcfence

import (
	"context"
	"errors"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// Domain is the domain of the ErrorInfo in each refusal.
const Domain = "github.com/lockkeeper/lockkeeper/fencing"

// The reasons in an ErrorInfo, and the keys of its metadata.
const (
	stale        = "STALE_FENCING_TOKEN"
	otherHistory = "OTHER_FENCING_HISTORY"
	required     = "FENCING_TOKEN_REQUIRED"
	invalid      = "INVALID_FENCING_TOKEN"
	badHistory   = "INVALID_FENCING_HISTORY"
	unchecked    = "FENCING_TOKEN_NOT_CHECKED"

	tokenField, newestField = "token", "newest"
	givenField, storedField = "history", "stored"
)

// Refusal returns a refusal as a status error: the argument may be a [*fencing.StaleError], a [*fencing.HistoryError], or
// another error that is [fencing.ErrStale], [fencing.ErrOtherHistory] or [fencing.ErrInvalid]. It returns any other error
// unchanged, and also an error that already has a status, as from a call that the handler made. A [Server] applies
// Refusal to the errors of handlers.
func Refusal(err error) error {
	var has interface{ GRPCStatus() *status.Status }
	if err == nil || errors.As(err, &has) {
		return err
	}
	var (
		older *fencing.StaleError
		other *fencing.HistoryError
	)
	switch {
	case errors.As(err, &older):
		return refusal(codes.FailedPrecondition, stale, older.Error(), map[string]string{
			tokenField: older.Token.String(), newestField: older.Newest.String(),
		})
	case errors.As(err, &other):
		return refusal(codes.FailedPrecondition, otherHistory, other.Error(), map[string]string{
			tokenField: other.Token.String(), givenField: other.Given, storedField: other.Stored,
		})
	case errors.Is(err, fencing.ErrStale):
		return refusal(codes.FailedPrecondition, stale, fencing.ErrStale.Error(), nil)
	case errors.Is(err, fencing.ErrOtherHistory):
		return refusal(codes.FailedPrecondition, otherHistory, fencing.ErrOtherHistory.Error(), nil)
	case errors.Is(err, errMissing):
		return refusal(codes.InvalidArgument, required, "send the token of your lock in the metadata "+TokenKey, nil)
	case errors.Is(err, errHistory):
		return refusal(codes.InvalidArgument, badHistory, err.Error(), nil)
	case errors.Is(err, fencing.ErrInvalid):
		return refusal(codes.InvalidArgument, invalid, TokenKey+": "+fencing.ErrInvalid.Error(), nil)
	}
	return err
}

// failure returns the status of a call whose guard could not decide. delivered reports whether the handler has received a
// message: gRPC may repeat a call that ends with UNAVAILABLE, all its messages included, and the handler would receive that
// message a second time.
func failure(err error, delivered bool) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	if delivered {
		return refusal(codes.Aborted, unchecked,
			"the guard could not check the fencing token of a message; earlier messages of the stream were delivered", nil)
	}
	return refusal(codes.Unavailable, unchecked, "the guard could not check the fencing token; nothing was delivered to the handler", nil)
}

func refusal(code codes.Code, reason, message string, fields map[string]string) error {
	s := status.New(code, message)
	detailed, err := s.WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: Domain, Metadata: fields})
	if err != nil { // the message has the same content for a person
		detailed = s
	}
	return detailed.Err()
}

// A refused is the error of a call that the server refused: its status, and its meaning.
type refused struct {
	method string
	status *status.Status
	cause  error
}

func (r *refused) Error() string { return "grpcfence: " + r.method + ": " + r.cause.Error() }

// GRPCStatus returns the status that was received, for status.FromError.
func (r *refused) GRPCStatus() *status.Status { return r.status }

func (r *refused) Unwrap() error { return r.cause }

// sent records what a call carried.
type sent struct {
	method  string
	token   fencing.Token
	history string
}

// explain returns err as a refused error if it is a refusal of the token that was sent, and otherwise err.
func (s sent) explain(err error) error {
	if err == nil {
		return nil
	}
	got, ok := status.FromError(err)
	if !ok {
		return err
	}
	for _, detail := range got.Details() {
		info, ok := detail.(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != Domain {
			continue
		}
		if cause := s.meaning(info.GetReason(), info.GetMetadata()); cause != nil {
			return &refused{method: s.method, status: got, cause: cause}
		}
	}
	return err
}

// meaning returns the meaning of a refusal of this call. It returns nil for a refusal of another call, and for an unknown
// reason.
func (s sent) meaning(reason string, fields map[string]string) error {
	switch reason {
	case required, invalid:
		if s.token.Valid() {
			return nil
		}
		return fencing.ErrInvalid
	case stale, otherHistory:
	default:
		return nil
	}
	if token, err := fencing.ParseToken(fields[tokenField]); err != nil || token != s.token {
		return nil
	}
	if reason == stale {
		// If the tokens are not in this order, the refused one is not stale.
		newest, err := fencing.ParseToken(fields[newestField])
		if err != nil || newest <= s.token {
			return nil
		}
		return &fencing.StaleError{Token: s.token, Newest: newest}
	}
	stored := fields[storedField]
	if fields[givenField] != s.history || stored == s.history || fencing.CheckHistory(stored) != nil {
		return nil
	}
	return &fencing.HistoryError{Token: s.token, Given: s.history, Stored: stored}
}

// SPDX-License-Identifier: Apache-2.0

package grpcfence_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/grpcfence"
)

// info returns the ErrorInfo of a refusal. It requires that there is exactly one and that the status has this code.
func info(t *testing.T, err error, code codes.Code) *errdetails.ErrorInfo {
	t.Helper()
	got := status.Convert(err)
	require.Equal(t, code, got.Code(), err)
	require.Len(t, got.Details(), 1, err)
	detail, ok := got.Details()[0].(*errdetails.ErrorInfo)
	require.True(t, ok, err)
	require.Equal(t, grpcfence.Domain, detail.GetDomain())
	return detail
}

// recording returns a service whose Put records its context, and the recorded context.
func recording() (*ledger, *context.Context) {
	var seen context.Context
	return &ledger{put: func(ctx context.Context, _ []byte) error { seen = ctx; return nil }}, &seen
}

func invoke(ctx context.Context, conn *grpc.ClientConn, method string) error {
	return conn.Invoke(ctx, method, wrapperspb.Bytes([]byte("entry")), &wrapperspb.BytesValue{})
}

func TestHandlerGetsTokenAndHistory(t *testing.T) {
	service, seen := recording()
	conn := connected(t, service, newServer(t, nil), intercepted...)
	ctx := fencing.WithToken(t.Context(), 4294967311)
	require.NoError(t, invoke(ctx, conn, put))
	require.Equal(t, fencing.Token(4294967311), fencing.TokenFromContext(*seen))
	require.Empty(t, fencing.HistoryFromContext(*seen))
	require.NoError(t, invoke(fencing.WithHistory(ctx, "H-1"), conn, put))
	require.Equal(t, "H-1", fencing.HistoryFromContext(*seen))
}

func TestCallWithoutExactlyOneTokenIsRefused(t *testing.T) {
	service, seen := recording()
	conn := connected(t, service, newServer(t, nil)) // a client without the interceptors
	long := strings.Repeat("h", 65)
	for _, c := range []struct {
		pairs  []string
		reason string
	}{
		{nil, "FENCING_TOKEN_REQUIRED"},
		{[]string{"fencing-history", "H-1"}, "FENCING_TOKEN_REQUIRED"},
		{[]string{"fencing-token", ""}, "INVALID_FENCING_TOKEN"},
		{[]string{"fencing-token", "0"}, "INVALID_FENCING_TOKEN"},
		{[]string{"fencing-token", "-7"}, "INVALID_FENCING_TOKEN"},
		{[]string{"fencing-token", "07"}, "INVALID_FENCING_TOKEN"},
		{[]string{"fencing-token", "7", "fencing-token", "7"}, "INVALID_FENCING_TOKEN"},
		{[]string{"fencing-token", "7", "fencing-history", ""}, "INVALID_FENCING_HISTORY"},
		{[]string{"fencing-token", "7", "fencing-history", "a b"}, "INVALID_FENCING_HISTORY"},
		{[]string{"fencing-token", "7", "fencing-history", long}, "INVALID_FENCING_HISTORY"},
		{[]string{"fencing-token", "7", "fencing-history", "H", "fencing-history", "H"}, "INVALID_FENCING_HISTORY"},
	} {
		err := invoke(metadata.AppendToOutgoingContext(t.Context(), c.pairs...), conn, put)
		require.Equal(t, c.reason, info(t, err, codes.InvalidArgument).GetReason(), "%q: %v", c.pairs, err)
		require.Nil(t, *seen, "the handler ran")
		if c.reason != "INVALID_FENCING_TOKEN" {
			continue
		}
		stream, err := conn.NewStream(metadata.AppendToOutgoingContext(t.Context(), c.pairs...),
			&grpc.StreamDesc{ClientStreams: true}, putAll)
		require.NoError(t, err)
		require.Equal(t, c.reason, info(t, stream.RecvMsg(&wrapperspb.BytesValue{}), codes.InvalidArgument).GetReason())
	}
}

func TestMethodThatNeedsNoTokenIsServedWithoutToken(t *testing.T) {
	service := &ledger{
		get:    func(context.Context, []byte) ([]byte, error) { return nil, nil },
		putAll: func(stream grpc.ServerStream) error { return stream.SendMsg(&wrapperspb.BytesValue{}) },
	}
	fence := newServer(t, &grpcfence.ServerOptions{
		Requires: func(string) bool { return false },
		Guard:    grpcfence.GuardFunc(func(context.Context, string, fencing.Token) error { panic("called") }),
		Resource: func(string, any) string { panic("called") },
	})
	conn := connected(t, service, fence)
	require.NoError(t, invoke(t.Context(), conn, get))
	require.NoError(t, send(t.Context(), conn))
}

func TestRefusalByStoreIsStatusWithDetails(t *testing.T) {
	for _, c := range []struct {
		err    error
		code   codes.Code
		reason string
		fields map[string]string
	}{
		{&fencing.StaleError{Token: 7, Newest: 8}, codes.FailedPrecondition, "STALE_FENCING_TOKEN", map[string]string{"token": "7", "newest": "8"}},
		{
			&fencing.HistoryError{Token: 7, Given: "A", Stored: "B"}, codes.FailedPrecondition, "OTHER_FENCING_HISTORY",
			map[string]string{"token": "7", "history": "A", "stored": "B"},
		},
		{fencing.ErrStale, codes.FailedPrecondition, "STALE_FENCING_TOKEN", nil},
		{fencing.ErrOtherHistory, codes.FailedPrecondition, "OTHER_FENCING_HISTORY", nil},
		{fencing.ErrInvalid, codes.InvalidArgument, "INVALID_FENCING_TOKEN", nil},
	} {
		wrapped := fmt.Errorf("store: put: %w", c.err)
		service := &ledger{
			put:    func(context.Context, []byte) error { return wrapped },
			putAll: func(grpc.ServerStream) error { return wrapped },
		}
		conn := connected(t, service, newServer(t, nil))
		ctx := metadata.AppendToOutgoingContext(t.Context(), grpcfence.TokenKey, "7")
		for _, err := range []error{invoke(ctx, conn, put), send(ctx, conn), grpcfence.Refusal(wrapped)} {
			detail := info(t, err, c.code)
			require.Equal(t, c.reason, detail.GetReason())
			require.Equal(t, c.fields, detail.GetMetadata())
		}
	}
}

func TestOtherErrorOfHandlerIsUnchanged(t *testing.T) {
	lost := status.Error(codes.DataLoss, "disk")
	plain := errors.New("plain")
	for _, err := range []error{nil, lost, plain, io.EOF, fmt.Errorf("%w: %w", lost, &fencing.StaleError{Token: 7, Newest: 8})} {
		require.Equal(t, err, grpcfence.Refusal(err))
	}
}

// A question is one call of a guard.
type question struct {
	resource string
	token    fencing.Token
	history  string
}

// guarding returns a server's options with a guard that records its calls and returns what answer returns.
func guarding(questions *[]question, answer func() error, failed *error) *grpcfence.ServerOptions {
	return &grpcfence.ServerOptions{
		Guard: grpcfence.GuardFunc(func(ctx context.Context, resource string, token fencing.Token) error {
			*questions = append(*questions, question{resource, token, fencing.HistoryFromContext(ctx)})
			return answer()
		}),
		Resource: func(method string, message any) string {
			return method + " " + string(message.(*wrapperspb.BytesValue).GetValue())
		},
		Failed: func(_ string, err error) { *failed = err },
	}
}

func TestGuardIsCalledBeforeHandlerRuns(t *testing.T) {
	down := errors.New("down: a secret")
	for _, c := range []struct {
		answer error
		code   codes.Code
		failed bool
	}{
		{nil, codes.OK, false},
		{&fencing.StaleError{Token: 7, Newest: 8}, codes.FailedPrecondition, false},
		{&fencing.HistoryError{Token: 7, Given: "H-1", Stored: "H-2"}, codes.FailedPrecondition, false},
		{fencing.ErrInvalid, codes.InvalidArgument, false},
		{down, codes.Unavailable, true},
		{fmt.Errorf("guard: %w", context.DeadlineExceeded), codes.DeadlineExceeded, true},
		{status.Error(codes.NotFound, "a secret"), codes.Unavailable, true},
	} {
		var (
			questions []question
			failed    error
		)
		service, seen := recording()
		fence := newServer(t, guarding(&questions, func() error { return c.answer }, &failed))
		conn := connected(t, service, fence, intercepted...)
		err := invoke(fencing.WithHistory(fencing.WithToken(t.Context(), 7), "H-1"), conn, put)
		require.Equal(t, c.code, status.Code(err), err)
		require.Equal(t, []question{{put + " entry", 7, "H-1"}}, questions)
		require.Equal(t, c.answer == nil, *seen != nil, "the handler runs if the guard admits")
		require.Equal(t, c.failed, failed != nil)
		if c.failed {
			require.Equal(t, c.answer, failed)
			require.NotContains(t, err.Error(), "secret")
		}
		if c.code == codes.Unavailable {
			require.Equal(t, "FENCING_TOKEN_NOT_CHECKED", info(t, err, c.code).GetReason())
		}
	}
}

func TestGuardIsCalledForEachMessageOfStream(t *testing.T) {
	var (
		questions []question
		failed    error
		handled   []string
		gate      fencing.Gate
	)
	answer := func() error {
		if len(questions) == 3 {
			require.NoError(t, gate.Admit(8)) // a newer holder, while the stream is open
		}
		return gate.Admit(7)
	}
	for name, swallows := range map[string]bool{"returns the error": false, "swallows the error": true} {
		t.Run(name, func(t *testing.T) {
			questions, handled = nil, nil
			require.NoError(t, gate.Reset(0))
			service := &ledger{putAll: func(stream grpc.ServerStream) error {
				for {
					message, err := received(stream)
					if err != nil {
						require.Error(t, stream.RecvMsg(&wrapperspb.BytesValue{}), "the handler receives no more messages")
					}
					switch {
					case errors.Is(err, io.EOF) || err != nil && swallows:
						return stream.SendMsg(&wrapperspb.BytesValue{})
					case err != nil:
						return err
					}
					handled = append(handled, string(message))
				}
			}}
			conn := connected(t, service, newServer(t, guarding(&questions, answer, &failed)), intercepted...)
			var messages []*wrapperspb.BytesValue
			for _, text := range []string{"a", "b", "c", "d"} {
				messages = append(messages, wrapperspb.Bytes([]byte(text)))
			}
			err := send(fencing.WithToken(t.Context(), 7), conn, messages...)
			var stale *fencing.StaleError
			require.ErrorAs(t, err, &stale, "the stream ends with the refusal, whatever the handler returns")
			require.Equal(t, fencing.StaleError{Token: 7, Newest: 8}, *stale)
			require.Equal(t, []string{"a", "b"}, handled)
			require.Len(t, questions, 3)
			require.NoError(t, failed)
		})
	}
}

// retrying makes gRPC repeat a stream that ends with UNAVAILABLE before the server has sent anything.
const retrying = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 2, "initialBackoff": "0.001s",
	"maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`

func TestStreamWhoseGuardFailsAfterDeliveredMessageIsNotRepeated(t *testing.T) {
	down := errors.New("down")
	for fails, c := range map[int]struct { // at which message of the first attempt
		code    codes.Code
		text    string
		handled []string
	}{
		1: {codes.OK, "", []string{"a", "b", "c"}},
		2: {codes.Aborted, "earlier messages of the stream were delivered", []string{"a"}},
		3: {codes.Aborted, "earlier messages of the stream were delivered", []string{"a", "b"}},
	} {
		var (
			questions []question
			failed    error
			handled   []string
		)
		service := &ledger{putAll: func(stream grpc.ServerStream) error {
			for {
				message, err := received(stream)
				switch {
				case errors.Is(err, io.EOF):
					return stream.SendMsg(&wrapperspb.BytesValue{})
				case err != nil:
					return err
				}
				handled = append(handled, string(message))
			}
		}}
		answer := func() error {
			if len(questions) == fails {
				return down
			}
			return nil
		}
		opts := append([]grpc.DialOption{grpc.WithDefaultServiceConfig(retrying)}, intercepted...)
		conn := connected(t, service, newServer(t, guarding(&questions, answer, &failed)), opts...)
		err := send(fencing.WithToken(t.Context(), 7), conn,
			wrapperspb.Bytes([]byte("a")), wrapperspb.Bytes([]byte("b")), wrapperspb.Bytes([]byte("c")))
		require.Equal(t, c.handled, handled, "fails at %d: no message is delivered twice", fails)
		require.Equal(t, c.code, status.Code(err), err)
		require.Equal(t, down, failed)
		if err != nil {
			require.ErrorContains(t, err, c.text)
			require.Equal(t, "FENCING_TOKEN_NOT_CHECKED", info(t, err, c.code).GetReason())
		}
	}
}

func TestNewServerRequiresGuardWithResource(t *testing.T) {
	admits := grpcfence.GuardFunc(func(context.Context, string, fencing.Token) error { return nil })
	resource := func(string, any) string { return "ledger" }
	for want, opts := range map[string]*grpcfence.ServerOptions{
		"nil GuardFunc":                               {Guard: grpcfence.GuardFunc(nil), Resource: resource},
		"Guard is set, and Resource is nil":           {Guard: admits},
		"Resource or Failed is set, and Guard is nil": {Resource: resource},
		"Failed is set, and Guard is nil":             {Failed: func(string, error) {}},
	} {
		_, err := grpcfence.NewServer(opts)
		require.ErrorContains(t, err, want)
	}
}

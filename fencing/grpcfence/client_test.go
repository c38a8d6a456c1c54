// SPDX-License-Identifier: Apache-2.0

package grpcfence_test

import (
	"context"
	"math"
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

// answered returns the metadata that the client interceptor sends, and the error that it returns for err.
func answered(ctx context.Context, err error) (metadata.MD, error) {
	var sent metadata.MD
	got := grpcfence.UnaryClientInterceptor(ctx, put, nil, nil, nil,
		func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
			sent, _ = metadata.FromOutgoingContext(ctx)
			return err
		})
	return sent, got
}

func refusal(t *testing.T, code codes.Code, reason string, fields map[string]string) error {
	t.Helper()
	s, err := status.New(code, "refused").WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: grpcfence.Domain, Metadata: fields})
	require.NoError(t, err)
	return s.Err()
}

func TestTokenOfContextReplacesMetadataOfCaller(t *testing.T) {
	ctx := metadata.AppendToOutgoingContext(t.Context(), grpcfence.TokenKey, "6", grpcfence.HistoryKey, "old", "other", "stays")
	before, _ := metadata.FromOutgoingContext(ctx)

	sent, err := answered(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, before, sent, "there is no token to replace it")

	sent, err = answered(fencing.WithToken(ctx, 7), nil)
	require.NoError(t, err)
	require.Equal(t, metadata.MD{grpcfence.TokenKey: {"7"}, "other": {"stays"}}, sent, "a history is replaced together with its token")

	sent, err = answered(fencing.WithHistory(fencing.WithToken(ctx, 7), "H-1"), nil)
	require.NoError(t, err)
	require.Equal(t, metadata.MD{grpcfence.TokenKey: {"7"}, grpcfence.HistoryKey: {"H-1"}, "other": {"stays"}}, sent)
	after, _ := metadata.FromOutgoingContext(ctx)
	require.Equal(t, before, after, "the metadata of the caller is unchanged")
}

func TestInvalidTokenOrHistoryIsNotSent(t *testing.T) {
	for _, ctx := range []context.Context{
		fencing.WithToken(t.Context(), -1),
		fencing.WithToken(t.Context(), math.MinInt64),
		fencing.WithHistory(fencing.WithToken(t.Context(), 7), "a b"),
	} {
		err := grpcfence.UnaryClientInterceptor(ctx, put, nil, nil, nil,
			func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { panic("sent") })
		require.ErrorContains(t, err, "grpcfence: "+put+": send ")
		_, err = grpcfence.StreamClientInterceptor(ctx, nil, nil, putAll,
			func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
				panic("sent")
			})
		require.ErrorContains(t, err, "grpcfence: "+putAll+": send ")
	}
	_, err := answered(fencing.WithToken(t.Context(), -1), nil)
	require.ErrorIs(t, err, fencing.ErrInvalid)
}

func TestRefusalOfSentTokenWrapsItsMeaning(t *testing.T) {
	ctx := fencing.WithHistory(fencing.WithToken(t.Context(), 7), "A")
	from := refusal(t, codes.FailedPrecondition, "STALE_FENCING_TOKEN", map[string]string{"token": "7", "newest": "8"})
	_, err := answered(ctx, from)
	var stale *fencing.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, fencing.StaleError{Token: 7, Newest: 8}, *stale)
	require.Equal(t, "grpcfence: "+put+": fencing: token 7 is stale: 8 has been admitted", err.Error())
	require.Equal(t, status.Convert(from).Proto().String(), status.Convert(err).Proto().String(), "the status is unchanged")

	_, err = answered(ctx, refusal(t, codes.FailedPrecondition, "OTHER_FENCING_HISTORY",
		map[string]string{"token": "7", "history": "A", "stored": "B"}))
	var other *fencing.HistoryError
	require.ErrorAs(t, err, &other)
	require.Equal(t, fencing.HistoryError{Token: 7, Given: "A", Stored: "B"}, *other)
	require.NotErrorIs(t, err, fencing.ErrStale)

	for _, reason := range []string{"FENCING_TOKEN_REQUIRED", "INVALID_FENCING_TOKEN"} {
		_, err = answered(t.Context(), refusal(t, codes.InvalidArgument, reason, nil))
		require.ErrorIs(t, err, fencing.ErrInvalid)
		require.Equal(t, codes.InvalidArgument, status.Code(err))
	}
}

// A server that relays the refusal of another token, which it received from another server, has not refused this token.
func TestRefusalOfAnotherTokenIsReturnedUnchanged(t *testing.T) {
	ctx := fencing.WithHistory(fencing.WithToken(t.Context(), 7), "A")
	for _, c := range []struct {
		code   codes.Code
		reason string
		fields map[string]string
	}{
		{codes.FailedPrecondition, "STALE_FENCING_TOKEN", map[string]string{"token": "5", "newest": "8"}},
		{codes.FailedPrecondition, "STALE_FENCING_TOKEN", map[string]string{"token": "7", "newest": "7"}},
		{codes.FailedPrecondition, "STALE_FENCING_TOKEN", map[string]string{"token": "7", "newest": "x"}},
		{codes.FailedPrecondition, "STALE_FENCING_TOKEN", map[string]string{"token": "7"}},
		{codes.FailedPrecondition, "STALE_FENCING_TOKEN", nil},
		{codes.FailedPrecondition, "OTHER_FENCING_HISTORY", map[string]string{"token": "5", "history": "A", "stored": "B"}},
		{codes.FailedPrecondition, "OTHER_FENCING_HISTORY", map[string]string{"token": "7", "history": "B", "stored": "C"}},
		{codes.FailedPrecondition, "OTHER_FENCING_HISTORY", map[string]string{"token": "7", "history": "A", "stored": "A"}},
		{codes.FailedPrecondition, "OTHER_FENCING_HISTORY", map[string]string{"token": "7", "history": "A"}},
		{codes.InvalidArgument, "INVALID_FENCING_TOKEN", nil},
		{codes.InvalidArgument, "FENCING_TOKEN_REQUIRED", nil},
		{codes.Unavailable, "FENCING_TOKEN_NOT_CHECKED", nil},
		{codes.FailedPrecondition, "LATER_REASON", map[string]string{"token": "7", "newest": "8"}},
	} {
		from := refusal(t, c.code, c.reason, c.fields)
		_, err := answered(ctx, from)
		require.Equal(t, from, err, "%s %v", c.reason, c.fields)
	}
	foreign, err := status.New(codes.FailedPrecondition, "x").WithDetails(&errdetails.ErrorInfo{
		Reason: "STALE_FENCING_TOKEN", Domain: "example.com", Metadata: map[string]string{"token": "7", "newest": "8"},
	})
	require.NoError(t, err)
	for _, from := range []error{foreign.Err(), status.Error(codes.FailedPrecondition, "x"), context.Canceled} {
		_, err := answered(ctx, from)
		require.Equal(t, from, err)
	}
}

func TestRefusalOfTokenInMetadataOfCallerIsRecognised(t *testing.T) {
	ctx := metadata.AppendToOutgoingContext(t.Context(), grpcfence.TokenKey, "7")
	_, err := answered(ctx, refusal(t, codes.FailedPrecondition, "STALE_FENCING_TOKEN", map[string]string{"token": "7", "newest": "8"}))
	require.ErrorIs(t, err, fencing.ErrStale)
}

func TestRefusedStreamReturnsRefusalAtEachReceive(t *testing.T) {
	service := &ledger{putAll: func(grpc.ServerStream) error { return &fencing.StaleError{Token: 7, Newest: 8} }}
	conn := connected(t, service, newServer(t, nil), intercepted...)
	stream, err := conn.NewStream(fencing.WithToken(t.Context(), 7), &grpc.StreamDesc{ServerStreams: true}, putAll)
	require.NoError(t, err)
	for range 2 {
		require.ErrorIs(t, stream.RecvMsg(&wrapperspb.BytesValue{}), fencing.ErrStale)
	}
}

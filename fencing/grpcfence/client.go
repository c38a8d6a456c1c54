// SPDX-License-Identifier: Apache-2.0

package grpcfence

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// UnaryClientInterceptor sends the token and the history of the call's context. It sends a call without a token unchanged. A
// negative token is an error that wraps [fencing.ErrInvalid], an invalid history is an error as well, and nothing is sent in
// these cases. If the server refuses the token that was sent, the error wraps its meaning, as the package comment describes.
func UnaryClientInterceptor(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	ctx, carried, err := outgoing(ctx, method)
	if err != nil {
		return err
	}
	return carried.explain(invoke(ctx, method, request, reply, conn, opts...))
}

// StreamClientInterceptor is [UnaryClientInterceptor] for streams. RecvMsg returns a refusal; SendMsg returns io.EOF when
// the server has ended the stream, as in every gRPC stream.
func StreamClientInterceptor(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	ctx, carried, err := outgoing(ctx, method)
	if err != nil {
		return nil, err
	}
	stream, err := open(ctx, desc, conn, method, opts...)
	if err != nil {
		return nil, carried.explain(err)
	}
	return &clientStream{stream, carried}, nil
}

// outgoing returns ctx with the metadata of its token, and the token and history that the call carries.
func outgoing(ctx context.Context, method string) (context.Context, sent, error) {
	token, history := fencing.TokenFromContext(ctx), fencing.HistoryFromContext(ctx)
	if token < 0 {
		return nil, sent{}, fmt.Errorf("grpcfence: %s: send token %d: %w", method, int64(token), fencing.ErrInvalid)
	}
	if history != "" {
		if err := fencing.CheckHistory(history); err != nil {
			return nil, sent{}, fmt.Errorf("grpcfence: %s: send history: %w", method, err)
		}
	}
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	if md == nil {
		md = metadata.MD{}
	}
	// Set, not append: the server refuses a call with two tokens.
	if token.Valid() {
		md.Set(TokenKey, token.String())
		md.Delete(HistoryKey)
		if history != "" {
			md.Set(HistoryKey, history)
		}
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	// Include what the caller has set. If that cannot be parsed, the server refuses it.
	carried := sent{method: method}
	if token, history, err := parse(md); err == nil {
		carried.token, carried.history = token, history
	}
	return ctx, carried, nil
}

type clientStream struct {
	grpc.ClientStream
	sent sent
}

func (s *clientStream) RecvMsg(m any) error {
	return s.sent.explain(s.ClientStream.RecvMsg(m))
}

// SPDX-License-Identifier: Apache-2.0

package grpcfence

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// UnaryClientInterceptor sends the token and the history of the call's context. A call without a token goes out as it is. A
// negative token is an error that wraps [fencing.ErrInvalid], an invalid history an error as well, and nothing is sent. A
// refusal of the token that was sent is an error that wraps its meaning, as the package comment says.
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
// the server has ended the stream, as always.
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

// outgoing returns ctx with the metadata of its token, and what a call with it carries.
func outgoing(ctx context.Context, method string) (context.Context, sent, error) {
	token, history := Token(ctx), History(ctx)
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
	// Set, not appended: two tokens in one call are an error on the server.
	if token.Valid() {
		md.Set(TokenKey, token.String())
		md.Delete(HistoryKey)
		if history != "" {
			md.Set(HistoryKey, history)
		}
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	// Also what the caller has set. What cannot be parsed is for the server to refuse.
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

// SPDX-License-Identifier: Apache-2.0

package grpcfence_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/fencetest"
	"github.com/lockkeeper/lockkeeper/fencing/grpcfence"
	"github.com/lockkeeper/lockkeeper/fencing/objectfence"
)

// A ledger is a service of four methods, in place of a service that protoc would generate. Its messages are bytes.
type ledger struct {
	put   func(ctx context.Context, message []byte) error
	get   func(ctx context.Context, message []byte) ([]byte, error)
	reset func(ctx context.Context, message []byte) error
	// putAll receives a stream of messages, and sends the reply when the client has closed its side.
	putAll func(stream grpc.ServerStream) error
}

const (
	put    = "/test.Ledger/Put"
	get    = "/test.Ledger/Get"
	reset  = "/test.Ledger/Reset"
	putAll = "/test.Ledger/PutAll"
)

func (l *ledger) desc() *grpc.ServiceDesc {
	unary := func(name string, method func(context.Context, []byte) ([]byte, error)) grpc.MethodDesc {
		return grpc.MethodDesc{MethodName: name, Handler: func(
			_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor,
		) (any, error) {
			var request wrapperspb.BytesValue
			if err := decode(&request); err != nil {
				return nil, err
			}
			handle := func(ctx context.Context, request any) (any, error) {
				reply, err := method(ctx, request.(*wrapperspb.BytesValue).GetValue())
				return wrapperspb.Bytes(reply), err
			}
			if interceptor == nil {
				return handle(ctx, &request)
			}
			return interceptor(ctx, &request, &grpc.UnaryServerInfo{FullMethod: "/test.Ledger/" + name}, handle)
		}}
	}
	silent := func(method func(context.Context, []byte) error) func(context.Context, []byte) ([]byte, error) {
		return func(ctx context.Context, message []byte) ([]byte, error) { return nil, method(ctx, message) }
	}
	return &grpc.ServiceDesc{
		ServiceName: "test.Ledger",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{unary("Put", silent(l.put)), unary("Get", l.get), unary("Reset", silent(l.reset))},
		Streams: []grpc.StreamDesc{{
			StreamName: "PutAll", ClientStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error { return l.putAll(stream) },
		}},
	}
}

// received returns the next message of a stream.
func received(stream grpc.ServerStream) ([]byte, error) {
	var message wrapperspb.BytesValue
	err := stream.RecvMsg(&message)
	return message.GetValue(), err
}

// connected serves l behind fence and returns a connection to it. Both last until the test ends.
func connected(t *testing.T, l *ledger, fence *grpcfence.Server, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	server := grpc.NewServer(grpc.UnaryInterceptor(fence.Unary), grpc.StreamInterceptor(fence.Stream))
	server.RegisterService(l.desc(), nil)
	listener := bufconn.Listen(1 << 16)
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})
	dial := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) })
	opts = append(opts, dial, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient("passthrough:ledger", opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

var intercepted = []grpc.DialOption{
	grpc.WithUnaryInterceptor(grpcfence.UnaryClientInterceptor),
	grpc.WithStreamInterceptor(grpcfence.StreamClientInterceptor),
}

func newServer(t *testing.T, opts *grpcfence.ServerOptions) *grpcfence.Server {
	t.Helper()
	fence, err := grpcfence.NewServer(opts)
	require.NoError(t, err)
	return fence
}

// writes reports whether a method needs a token.
func writes(method string) bool { return method == put || method == putAll }

// checked does what the package comment advises: it passes the token to a store that checks it.
func checked(store objectfence.Store) *ledger {
	guard := func(ctx context.Context) *objectfence.Guard {
		guard, err := objectfence.New(store, &objectfence.Options{History: fencing.HistoryFromContext(ctx)})
		if err != nil {
			panic(err) // the Server has checked the history
		}
		return guard
	}
	write := func(ctx context.Context, message []byte) error {
		resource, value := unpack(message)
		return guard(ctx).Put(ctx, resource, fencing.TokenFromContext(ctx), []byte(value))
	}
	return &ledger{
		put: write,
		get: func(ctx context.Context, message []byte) ([]byte, error) {
			resource, _ := unpack(message)
			body, err := guard(ctx).Get(ctx, resource)
			if errors.Is(err, objectfence.ErrNotFound) {
				err = nil
			}
			return body, err
		},
		reset: func(ctx context.Context, message []byte) error {
			resource, history := unpack(message)
			return guard(fencing.WithHistory(ctx, history)).Reset(ctx, resource, 0)
		},
		putAll: func(stream grpc.ServerStream) error {
			message, err := received(stream)
			if err == nil {
				err = write(stream.Context(), message)
			}
			if err != nil {
				return err
			}
			return stream.SendMsg(&wrapperspb.BytesValue{})
		},
	}
}

// pack encodes a name and a value, which may contain any bytes.
func pack(resource, value string) *wrapperspb.BytesValue {
	return wrapperspb.Bytes([]byte(url.QueryEscape(resource) + "\n" + url.QueryEscape(value)))
}

func unpack(message []byte) (resource, value string) {
	first, second, _ := strings.Cut(string(message), "\n")
	resource, _ = url.QueryUnescape(first)
	value, _ = url.QueryUnescape(second)
	return resource, value
}

// A caller is a client of the service.
type caller struct {
	conn    *grpc.ClientConn
	history string
	stream  bool
}

func (c *caller) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	ctx = fencing.WithHistory(fencing.WithToken(ctx, token), c.history)
	var err error
	if c.stream {
		err = send(ctx, c.conn, pack(resource, value))
	} else {
		err = c.conn.Invoke(ctx, put, pack(resource, value), &wrapperspb.BytesValue{})
	}
	if status.Code(err) == codes.Canceled {
		err = fmt.Errorf("%w: %w", context.Canceled, err) // gRPC reports it by the code alone
	}
	return err
}

// send sends messages in one stream and returns the server's error.
func send(ctx context.Context, conn *grpc.ClientConn, messages ...*wrapperspb.BytesValue) error {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, putAll)
	if err != nil {
		return err
	}
	for _, message := range messages {
		if stream.SendMsg(message) != nil {
			break // RecvMsg returns the reason
		}
	}
	_ = stream.CloseSend() // RecvMsg returns the reason
	return stream.RecvMsg(&wrapperspb.BytesValue{})
}

func (c *caller) Value(ctx context.Context, resource string) (string, error) {
	var reply wrapperspb.BytesValue
	err := c.conn.Invoke(ctx, get, pack(resource, ""), &reply)
	return string(reply.GetValue()), err
}

func (c *caller) Reset(ctx context.Context, resource string) error {
	return c.conn.Invoke(ctx, reset, pack(resource, c.history), &wrapperspb.BytesValue{})
}

func TestServiceWithGuardedStorePassesSuite(t *testing.T) {
	for name, stream := range map[string]bool{"unary": false, "stream": true} {
		t.Run(name, func(t *testing.T) {
			fencetest.Run(t, func(*testing.T) fencetest.Subject {
				store := &objectfence.Memory{}
				open := func(t *testing.T, history string) fencetest.Guarded {
					t.Helper()
					fence := newServer(t, &grpcfence.ServerOptions{Requires: writes})
					return &caller{connected(t, checked(store), fence, intercepted...), history, stream}
				}
				return fencetest.Subject{
					Open:        func(t *testing.T) fencetest.Guarded { t.Helper(); return open(t, "") },
					OpenHistory: open,
				}
			})
		})
	}
}

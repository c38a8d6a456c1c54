// SPDX-License-Identifier: Apache-2.0

package grpcfence_test

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/grpcfence"
	"github.com/lockkeeper/lockkeeper/fencing/objectfence"
)

// The handler passes the token to a store that checks it, and returns the store's error. Two clients hold the lock one after
// the other; the first has not been notified of its loss yet.
func Example() {
	store, err := objectfence.New(&objectfence.Memory{}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	service := &ledger{put: func(ctx context.Context, entry []byte) error {
		return store.Put(ctx, "ledger", fencing.TokenFromContext(ctx), entry)
	}}

	fence, err := grpcfence.NewServer(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(fence.Unary), grpc.StreamInterceptor(fence.Stream))
	server.RegisterService(service.desc(), nil)
	listener := bufconn.Listen(1 << 16)
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()

	conn, err := grpc.NewClient("passthrough:ledger",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithUnaryInterceptor(grpcfence.UnaryClientInterceptor),
		grpc.WithStreamInterceptor(grpcfence.StreamClientInterceptor))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, token := range []fencing.Token{4294967311, 4294967330, 4294967311, 0} {
		err := invoke(fencing.WithToken(context.Background(), token), conn, put)
		fmt.Println(token, status.Code(err), errors.Is(err, fencing.ErrStale))
	}

	fmt.Println(conn.Close())
	server.Stop()
	fmt.Println(<-served)
	// Output:
	// 4294967311 OK false
	// 4294967330 OK false
	// 4294967311 FailedPrecondition true
	// 0 InvalidArgument false
	// <nil>
	// <nil>
}

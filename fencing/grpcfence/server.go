// SPDX-License-Identifier: Apache-2.0

package grpcfence

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// A Guard decides whether the holder of token may still write resource: it returns nil to admit the token, and a
// [*fencing.StaleError] or a [*fencing.HistoryError] to refuse it. [fencing.HistoryFromContext] returns its history. Calls
// may be concurrent.
type Guard interface {
	Admit(ctx context.Context, resource string, token fencing.Token) error
}

// A GuardFunc is a function that implements [Guard].
type GuardFunc func(ctx context.Context, resource string, token fencing.Token) error

// Admit calls f.
func (f GuardFunc) Admit(ctx context.Context, resource string, token fencing.Token) error {
	return f(ctx, resource, token)
}

// ServerOptions are the options of a Server. The zero value of a field means its default.
type ServerOptions struct {
	_ struct{}

	// Requires reports whether calls of a method need a token, by its full name: "/package.Service/Method". Calls of other
	// methods pass unchanged. Default: every method needs one, including health checks and reflection.
	Requires func(fullMethod string) bool

	// Guard is called before the handler runs, and in a stream for each message that the handler receives. The package
	// comment describes the window that this leaves. Default: none; handlers pass the token to a store that checks it.
	Guard Guard

	// Resource returns the name of the resource that a message writes: one name for one lock path. Required if there is a
	// Guard.
	Resource func(fullMethod string, message any) string

	// Failed is called with the guard's error when the guard could not decide, because the status does not disclose the
	// error. Default: the error is dropped.
	Failed func(fullMethod string, err error)
}

// A Server requires a token of each call to a gRPC server. Its methods may be called concurrently.
type Server struct {
	opts ServerOptions
}

// NewServer returns the interceptors of a server. opts may be nil. A Guard without Resource is an error, and so is a
// Resource or a Failed without a Guard: a server must not start without its guard.
func NewServer(opts *ServerOptions) (*Server, error) {
	s := &Server{}
	if opts != nil {
		s.opts = *opts
	}
	guard := s.opts.Guard
	f, isFunc := guard.(GuardFunc)
	switch {
	case isFunc && f == nil:
		return nil, errors.New("grpcfence: new server: Guard is a nil GuardFunc")
	case guard != nil && s.opts.Resource == nil:
		return nil, errors.New("grpcfence: new server: Guard is set, and Resource is nil")
	case guard == nil && (s.opts.Resource != nil || s.opts.Failed != nil):
		return nil, errors.New("grpcfence: new server: Resource or Failed is set, and Guard is nil")
	}
	return s, nil
}

// Unary is the interceptor of unary calls. It refuses a call without a valid token, consults the guard if there is one, and
// runs the handler with a context for [fencing.TokenFromContext] and [fencing.HistoryFromContext]. It
// applies [Refusal] to the handler's error.
func (s *Server) Unary(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	if !s.requires(info.FullMethod) {
		return handler(ctx, request)
	}
	ctx, err := incoming(ctx)
	if err != nil {
		return nil, Refusal(err)
	}
	if err := s.admit(ctx, info.FullMethod, request, false); err != nil {
		return nil, err
	}
	reply, err := handler(ctx, request)
	return reply, Refusal(err)
}

// Stream is the interceptor of streams, as [Server.Unary] is for unary calls. It consults the guard for each message
// before the handler receives it. Once the guard has refused a message, the handler receives no more messages, and the
// stream ends with the refusal, whatever the handler returns.
func (s *Server) Stream(
	service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	if !s.requires(info.FullMethod) {
		return handler(service, stream)
	}
	ctx, err := incoming(stream.Context())
	if err != nil {
		return Refusal(err)
	}
	guarded := &serverStream{ServerStream: stream, ctx: ctx, admit: func(message any, delivered bool) error {
		return s.admit(ctx, info.FullMethod, message, delivered)
	}}
	err = handler(service, guarded)
	if refused := guarded.verdict(); refused != nil {
		return refused
	}
	return Refusal(err)
}

func (s *Server) requires(method string) bool {
	return s.opts.Requires == nil || s.opts.Requires(method)
}

// admit returns nil, the status of the guard's refusal, or of its failure. delivered reports whether the handler has received
// an earlier message of the call.
func (s *Server) admit(ctx context.Context, method string, message any, delivered bool) error {
	if s.opts.Guard == nil {
		return nil
	}
	err := s.opts.Guard.Admit(ctx, s.opts.Resource(method, message), fencing.TokenFromContext(ctx))
	for _, refusal := range []error{fencing.ErrStale, fencing.ErrOtherHistory, fencing.ErrInvalid} {
		if errors.Is(err, refusal) {
			return Refusal(err)
		}
	}
	if err == nil {
		return nil
	}
	if s.opts.Failed != nil {
		s.opts.Failed(method, err)
	}
	return failure(err, delivered)
}

// incoming returns ctx with the token and the history of its call.
func incoming(ctx context.Context) (context.Context, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	token, history, err := parse(md)
	if err != nil {
		return nil, fmt.Errorf("grpcfence: %w", err)
	}
	return fencing.WithHistory(fencing.WithToken(ctx, token), history), nil
}

type serverStream struct {
	grpc.ServerStream
	ctx   context.Context
	admit func(message any, delivered bool) error

	// mu guards the fields below: a handler may receive in a goroutine that outlives it.
	mu        sync.Mutex
	refused   error
	delivered bool // the handler has received a message
}

func (s *serverStream) Context() context.Context { return s.ctx }

func (s *serverStream) RecvMsg(message any) error {
	if err := s.verdict(); err != nil {
		return err
	}
	if err := s.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	s.mu.Lock()
	delivered := s.delivered
	s.mu.Unlock()
	err := s.admit(message, delivered)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused, s.delivered = err, delivered || err == nil
	return err
}

func (s *serverStream) verdict() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// SPDX-License-Identifier: Apache-2.0

package oteltrace_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/trace/oteltrace"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// traced runs f in fake time with a mutex of a client that records spans, and one of another client on the same path.
func traced(t *testing.T, next *recipes.Trace, f func(s *setup)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		s := &setup{t: t, exporter: tracetest.NewInMemoryExporter()}
		provider := trace.NewTracerProvider(trace.WithSyncer(s.exporter))
		s.tracer = provider.Tracer("program")
		var err error
		s.ensemble, err = zktest.Run(t.Context(), &zktest.Options{InMemory: true})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.ensemble.Close()) }()
		connect := func(hooks *recipes.Trace) (*recipes.Client, *lock.Mutex) {
			client, err := recipes.Connect(t.Context(), s.ensemble.Addrs(), &recipes.Options{
				Dial: s.ensemble.Link().Dial, Logger: slog.New(slog.DiscardHandler), Trace: hooks,
			})
			require.NoError(t, err)
			mu, err := lock.New(client, "/l", nil)
			require.NoError(t, err)
			return client, mu
		}
		s.client, s.mu = connect(oteltrace.SpanTrace(next, &oteltrace.SpanOptions{
			TracerProvider: provider, Attributes: []attribute.KeyValue{attribute.String("client", "blue")},
		}))
		defer s.client.Close()
		other, mu := connect(nil)
		defer other.Close()
		s.other = mu
		f(s)
	})
}

type setup struct {
	t         *testing.T // of the bubble
	exporter  *tracetest.InMemoryExporter
	tracer    api.Tracer
	ensemble  *zktest.Ensemble
	client    *recipes.Client
	mu, other *lock.Mutex
}

// both returns the lock of mu and another one.
func (s *setup) both() *lock.MultiMutex {
	second, err := lock.New(s.client, "/m", nil)
	require.NoError(s.t, err)
	both, err := lock.All(s.mu, second)
	require.NoError(s.t, err)
	return both
}

// spans returns the spans of that name.
func (s *setup) spans(name string) (found []tracetest.SpanStub) {
	synctest.Wait() // hooks are called later
	for _, span := range s.exporter.GetSpans() {
		if span.Name == name {
			found = append(found, span)
		}
	}
	return found
}

// requireSpan returns the only span of that name, whose attributes besides the path and the client's are those in the map.
func (s *setup) requireSpan(t *testing.T, name string, attributes map[string]any) tracetest.SpanStub {
	t.Helper()
	found := s.spans(name)
	require.Len(t, found, 1)
	got := map[string]any{}
	for _, a := range found[0].Attributes {
		got[string(a.Key)] = a.Value.AsInterface()
	}
	want := map[string]any{"client": "blue", "lockkeeper.path": "/l"}
	for k, v := range attributes {
		want[k] = v
	}
	require.Equal(t, want, got)
	return found[0]
}

func TestWaitAndHoldAreChildrenOfCallersSpan(t *testing.T) {
	traced(t, nil, func(s *setup) {
		t := s.t
		first, err := s.other.Lock(t.Context())
		require.NoError(t, err)
		time.AfterFunc(3*time.Second, func() { _ = first.Unlock(context.Background()) })
		ctx, parent := s.tracer.Start(t.Context(), "request")
		began := time.Now()
		hold, err := s.mu.Lock(ctx)
		require.NoError(t, err)
		granted := time.Now()
		time.Sleep(2 * time.Second)
		require.NoError(t, hold.Unlock(ctx))
		parent.End()

		attributes := map[string]any{"lockkeeper.node": hold.Path(), "lockkeeper.token": int64(hold.Token())}
		wait, held := s.requireSpan(t, "lockkeeper.wait", attributes), s.requireSpan(t, "lockkeeper.hold", attributes)
		require.Equal(t, began, wait.StartTime)
		require.Equal(t, granted, wait.EndTime)
		require.Equal(t, granted, held.StartTime)
		require.Equal(t, 2*time.Second, held.EndTime.Sub(held.StartTime))
		for _, span := range []tracetest.SpanStub{wait, held} {
			require.Equal(t, parent.SpanContext().SpanID(), span.Parent.SpanID())
			require.Equal(t, parent.SpanContext().TraceID(), span.SpanContext.TraceID())
			require.Equal(t, codes.Unset, span.Status.Code)
		}
	})
}

func TestTermsOfRunAreChildrenOfItsCallersSpan(t *testing.T) {
	traced(t, nil, func(s *setup) {
		t := s.t
		e, err := election.New(s.client, "/l", nil)
		require.NoError(t, err)
		ctx, parent := s.tracer.Start(t.Context(), "program")
		ctx, stop := context.WithCancel(ctx)
		require.NoError(t, e.Run(ctx, func(ctx context.Context, _ *election.Term) error {
			stop()
			return context.Cause(ctx)
		}))
		for _, name := range []string{"lockkeeper.wait", "lockkeeper.hold"} {
			found := s.spans(name)
			require.Len(t, found, 1)
			require.Equal(t, parent.SpanContext().SpanID(), found[0].Parent.SpanID())
		}
	})
}

func TestSpanOfLostHoldEndsWithItsCause(t *testing.T) {
	traced(t, nil, func(s *setup) {
		t := s.t
		ctx, cancel := context.WithCancel(t.Context())
		hold, err := s.mu.Lock(ctx)
		require.NoError(t, err)
		cancel() // the hold's own span must not miss its values
		require.NoError(t, s.ensemble.Expire(t.Context(), s.client.SessionID()))
		<-hold.Done()
		held := s.requireSpan(t, "lockkeeper.hold", map[string]any{
			"lockkeeper.node": hold.Path(), "lockkeeper.token": int64(hold.Token()), "lockkeeper.cause": "expired",
		})
		require.Equal(t, codes.Error, held.Status.Code)
		require.Contains(t, held.Status.Description, "session expired")
		require.False(t, held.Parent.IsValid(), "the call had no span")
	})
}

func TestSpanOfFailedWaitHasItsCause(t *testing.T) {
	for _, c := range []struct {
		cause string
		code  codes.Code
		call  func(ctx context.Context, s *setup) error
	}{
		{"busy", codes.Unset, func(ctx context.Context, s *setup) error {
			_, err := s.mu.TryLock(ctx)
			return err
		}},
		{"busy", codes.Unset, func(ctx context.Context, s *setup) error {
			_, err := s.both().TryLock(ctx)
			return err
		}},
		{"timeout", codes.Error, func(ctx context.Context, s *setup) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := s.mu.Lock(ctx)
			return err
		}},
		{"timeout", codes.Error, func(ctx context.Context, s *setup) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := s.both().Lock(ctx)
			return err
		}},
		{"timeout", codes.Error, func(ctx context.Context, s *setup) error {
			ctx, cancel := context.WithTimeout(ctx, 0)
			defer cancel()
			_, err := s.both().TryLock(ctx)
			return err
		}},
	} {
		traced(t, nil, func(s *setup) {
			t := s.t
			_, err := s.other.Lock(t.Context())
			require.NoError(t, err)
			ctx, parent := s.tracer.Start(t.Context(), "request")
			require.Error(t, c.call(ctx, s))
			wait := s.requireSpan(t, "lockkeeper.wait", map[string]any{"lockkeeper.cause": c.cause})
			require.Equal(t, c.code, wait.Status.Code)
			require.Equal(t, parent.SpanContext().SpanID(), wait.Parent.SpanID())
			require.Empty(t, s.spans("lockkeeper.hold"))
		})
	}
}

func TestSpanTraceCallsFunctionsOfNextTrace(t *testing.T) {
	var called []string
	record := func(name string) func(recipes.QueueEvent) {
		return func(recipes.QueueEvent) { called = append(called, name) }
	}
	next := &recipes.Trace{Granted: record("granted"), Failed: record("failed"), Ended: record("ended"), Released: record("released")}
	traced(t, next, func(s *setup) {
		t := s.t
		hold, err := s.mu.Lock(t.Context())
		require.NoError(t, err)
		_, err = s.mu.TryLock(t.Context())
		require.ErrorIs(t, err, lock.ErrLocked)
		require.NoError(t, hold.Unlock(t.Context()))
		synctest.Wait()
		require.Equal(t, []string{"granted", "failed", "ended", "released"}, called)
		require.Len(t, s.spans("lockkeeper.wait"), 2)
	})
}

func TestGlobalTracerProviderIsTheDefault(t *testing.T) {
	before := otel.GetTracerProvider()
	defer otel.SetTracerProvider(before)
	exporter := tracetest.NewInMemoryExporter()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSyncer(exporter)))
	oteltrace.SpanTrace(nil, nil).Failed(recipes.QueueEvent{Context: t.Context(), Path: "/l", Err: context.Canceled})
	require.Len(t, exporter.GetSpans(), 1)
}

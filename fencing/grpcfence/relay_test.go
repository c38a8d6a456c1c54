// SPDX-License-Identifier: Apache-2.0

package grpcfence_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/grpcfence"
	"github.com/lockkeeper/lockkeeper/fencing/httpfence"
)

func TestTokenThatArrivesByHTTPTravelsOnByGRPC(t *testing.T) {
	var sent metadata.MD
	handler := httpfence.RequireToken(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var err error
		sent, err = answered(r.Context(), nil)
		require.NoError(t, err)
	}))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/ledger", nil)
	r.Header.Set(httpfence.Header, "7")
	r.Header.Set(httpfence.HistoryHeader, "first")
	handler.ServeHTTP(httptest.NewRecorder(), r)
	require.Equal(t, metadata.MD{grpcfence.TokenKey: {"7"}, grpcfence.HistoryKey: {"first"}}, sent)
}

// A service that is called under one lock calls another service under its own, which can be in another ensemble.
func TestOwnTokenIsNotSentWithHistoryOfTheCaller(t *testing.T) {
	var sent metadata.MD
	handler := httpfence.RequireToken(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var err error
		sent, err = answered(fencing.WithToken(r.Context(), 9), nil)
		require.NoError(t, err)
	}))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/ledger", nil)
	r.Header.Set(httpfence.Header, "7")
	r.Header.Set(httpfence.HistoryHeader, "first")
	handler.ServeHTTP(httptest.NewRecorder(), r)
	require.Equal(t, metadata.MD{grpcfence.TokenKey: {"9"}}, sent)
}

func TestTokenThatArrivesByGRPCTravelsOnByHTTP(t *testing.T) {
	var sent http.Header
	store := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent = r.Header }))
	defer store.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: &httpfence.Transport{Base: base}}
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(grpcfence.TokenKey, "7", grpcfence.HistoryKey, "first"))
	_, err := newServer(t, nil).Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: put}, func(ctx context.Context, _ any) (any, error) {
		require.Equal(t, fencing.Token(7), fencing.TokenFromContext(ctx))
		r, err := http.NewRequestWithContext(ctx, http.MethodPut, store.URL, nil)
		require.NoError(t, err)
		resp, err := client.Do(r)
		require.NoError(t, err)
		return nil, resp.Body.Close()
	})
	require.NoError(t, err)
	require.Equal(t, "7", sent.Get(httpfence.Header))
	require.Equal(t, "first", sent.Get(httpfence.HistoryHeader))
}

// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/connectstring"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/node"
	"github.com/lockkeeper/lockkeeper/internal/registration"
	"github.com/lockkeeper/lockkeeper/internal/ring"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A server closes the connection over a packet of 1 MiB: the client would send it again for ever, and end all other requests
// of the client with it.
func TestPathAndDataThatDoNotFitAPacketAreRefusedAtTheCall(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		claim := claimed(t, client)
		node, err := node.New(client, "/node")
		require.NoError(t, err)
		kept, err := ring.New(client, "/ring", 1, nil)
		require.NoError(t, err)
		connections, requests := s.dials.Load(), len(s.seen(anyRequest))

		long, data := "/"+strings.Repeat("x", 1<<20), make([]byte, 1<<20)
		ctx := t.Context()
		for name, call := range map[string]func() error{
			"queue":        func() error { _, err := New(client, long, nil); return err },
			"node":         func() error { _, err := recipes.NewNode(client, long); return err },
			"ring":         func() error { _, err := ring.New(client, long, 1, nil); return err },
			"register":     func() error { _, err := registration.Register(ctx, client, long, nil, nil); return err },
			"commit":       func() error { _, err := claim.Commit(ctx, &zk.DeleteRequest{Path: long}); return err },
			"commit check": func() error { _, err := claim.Commit(ctx, &zk.CheckVersionRequest{Path: long}); return err },
			"commit data":  func() error { _, err := claim.Commit(ctx, &zk.SetDataRequest{Path: "/node", Data: data}); return err },
			"create":       func() error { return node.Create(ctx, data) },
			"replace":      func() error { return node.Replace(ctx, data, -1) },
			"update": func() error {
				_, err := node.Update(ctx, claim, func([]byte, *zk.Stat, bool) ([]byte, error) { return data, nil })
				return err
			},
			"append":         func() error { _, err := kept.Append(ctx, data); return err },
			"replace in it":  func() error { return kept.Replace(ctx, "entry", data) },
			"namespace":      func() error { _, err := recipes.Connect(ctx, s.Addrs(), &recipes.Options{Namespace: long}); return err },
			"chroot":         func() error { return connectstring.Check([]string{"localhost" + long}) },
			"just too long":  func() error { _, err := New(client, long[:zkpath.MaxPath+1], nil); return err },
			"just too large": func() error { return node.Create(ctx, data[:zkpath.MaxNode]) },
		} {
			err := call()
			require.ErrorContains(t, err, "over the limit of", name)
			require.Less(t, len(err.Error()), 400, name)
		}
		require.Equal(t, connections, s.dials.Load())
		for _, r := range s.seen(anyRequest)[requests:] {
			require.Less(t, r.Size, 1<<10)
		}
		require.NoError(t, claim.Err())
	})
}

// The connection ends in place of an answer, each time: the reply is larger than the client, or a proxy, accepts. The client's
// other requests end with it.
func TestContendersThatCannotBeAnsweredAreAnErrorAndOtherLocksAreGranted(t *testing.T) {
	for _, op := range []string{"getData", "getChildren"} {
		t.Run(op, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				s := newOccupied(t)
				client := s.connect(s.options())
				queue := newQueue(t, client, nil)
				rule := zktest.Rule{Op: op, Path: another, Lose: zktest.ToClient}
				if op == "getChildren" {
					rule.Path = "/l"
				}
				s.Intercept(rule)
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 100*testTimeout)
				defer cancel()
				_, err := queue.Contenders(ctx)
				require.ErrorContains(t, err, rule.Path+": 4 connections in turn ended in place of an answer")
				require.Less(t, time.Since(began), testTimeout)

				other, err := New(client, "/other", nil)
				require.NoError(t, err)
				_, err = other.Claim(ctx)
				require.NoError(t, err)
			})
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// connectIn connects a client with a namespace.
func (s servers) connectIn(namespace string, list ...string) *recipes.Client {
	s.Helper()
	if len(list) == 0 {
		list = s.Addrs()
	}
	client, err := recipes.Connect(s.Context(), list, &recipes.Options{
		SessionTimeout: nodeTimeout, Namespace: namespace, Dial: s.Dial, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(s, err)
	s.Cleanup(func() { client.Close() })
	return client
}

func makes(path string, flags int32) *zk.CreateRequest {
	return &zk.CreateRequest{Path: path, Acl: zk.WorldACL(zk.PermAll), Flags: flags}
}

func sets(path, data string) *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: path, Data: []byte(data), Version: -1}
}

func TestCommitNamesTheOperationThatFailed(t *testing.T) {
	for _, namespace := range []string{"", "/app"} {
		withServers(t, func(s servers) {
			s.must(s.Create("/app", nil))
			s.must(s.Create(namespace+"/state", []byte("old")))
			client := s.connectIn(namespace)
			claim := s.claim(client)
			for _, c := range []struct {
				op    any
				path  string
				kind  string
				cause error
			}{
				{sets("/missing", "x"), "/missing", "set data", zk.ErrNoNode},
				{makes("/state", 0), "/state", "create", zk.ErrNodeExists},
				{&zk.DeleteRequest{Path: "/missing", Version: -1}, "/missing", "delete", zk.ErrNoNode},
				{&zk.CheckVersionRequest{Path: "/state", Version: 7}, "/state", "check version", zk.ErrBadVersion},
			} {
				responses, err := claim.Commit(s.Context(), sets("/state", "half"), c.op, sets("/state", "half"))
				require.EqualError(s, err, "commit "+namespace+c.path+": "+c.kind+": "+c.cause.Error())
				require.ErrorIs(s, err, c.cause)
				var failed *recipes.Error
				require.ErrorAs(s, err, &failed)
				require.Equal(s, namespace+c.path, failed.Path)
				require.Len(s, responses, 3)
				require.ErrorIs(s, responses[1].Error, c.cause)
				require.NoError(s, claim.Err(), "the claim is held")
			}
			require.Equal(s, "old", s.data(namespace+"/state"))
		})
	}
}

func TestCommitTakesPathsBelowTheNamespace(t *testing.T) {
	withServers(t, func(s servers) {
		s.must(s.Create("/app", []byte("root")))
		s.must(s.Create("/app/state", []byte("old")))
		s.must(s.Create("/state", []byte("of another team")))
		client := s.connectIn("/app")
		claim := s.claim(client)
		op := sets("/state", "new")
		responses, err := claim.Commit(s.Context(), op, makes("/item-", zk.FlagSequence), makes("/state/", zk.FlagSequence), sets("/", "namespace"))
		require.NoError(s, err)
		require.Equal(s, "/state", op.Path, "the caller's operation is not changed")
		require.Equal(s, "new", s.data("/app/state"))
		require.Equal(s, "of another team", s.data("/state"))
		require.Equal(s, "namespace", s.data("/app"))

		item := responses[1].String
		require.True(s, strings.HasPrefix(item, "/item-"), "%q is below the namespace, as what it is passed to next", item)
		require.Empty(s, s.data(client.Path(item)))
		require.True(s, strings.HasPrefix(responses[2].String, "/state/0"), "%q", responses[2].String)
		_, err = claim.Commit(s.Context(), sets(item, "again"))
		require.NoError(s, err)
		require.Equal(s, "again", s.data(client.Path(item)))
	})
}

func TestPathIsBelowTheNamespace(t *testing.T) {
	withServers(t, func(s servers) {
		require.Equal(s, "/app/state", s.connectIn("/app").Path("/state"))
		require.Equal(s, "/app", s.connectIn("/app").Path("/"))
		require.Equal(s, "/chroot/app/state", s.connectIn("/app", strings.Join(s.Addrs(), ",")+"/chroot").Path("/state"))
		require.Equal(s, "/state", s.connectIn("").Path("/state"))
		require.Equal(s, "/", s.connectIn("").Path("/"))
	})
}

func TestOperationThatCannotBeMeantIsNamedAndNothingIsWritten(t *testing.T) {
	withServers(t, func(s servers) {
		s.must(s.Create("/app", nil))
		s.must(s.Create("/app/state", []byte("old")))
		s.must(s.Create("/appstate", []byte("of another team")))
		claim := s.claim(s.connectIn("/app"))
		for _, c := range []struct {
			op   any
			want string
		}{
			{zk.CreateRequest{Path: "/state"}, "commit /state: create: pass a pointer, a *zk.CreateRequest instead of a zk.CreateRequest"},
			{zk.SetDataRequest{Path: "/state"}, "commit /state: set data: pass a pointer, a *zk.SetDataRequest instead of a zk.SetDataRequest"},
			{zk.DeleteRequest{Path: "/state"}, "commit /state: delete: pass a pointer, a *zk.DeleteRequest instead of a zk.DeleteRequest"},
			{zk.CheckVersionRequest{Path: "/state"}, "commit /state: check version: pass a pointer, a *zk.CheckVersionRequest instead of a zk.CheckVersionRequest"},
			{(*zk.SetDataRequest)(nil), "an operation is a nil *zk.SetDataRequest"},
			{nil, "an operation is a <nil>"},
			{"/state", "an operation is a string: pass a *zk.CreateRequest, *zk.SetDataRequest, *zk.DeleteRequest or *zk.CheckVersionRequest"},
			{sets("state", "x"), `set data: path "state" is not absolute`},
			{sets("", "x"), `set data: path "" is empty`},
			{sets("/state/", "x"), `set data: path "/state/" has an empty segment`},
			{makes("/state/", 0), `create: path "/state/" has an empty segment`},
			{makes("/state//", zk.FlagSequence), `create: path "/state//" has an empty segment`},
			{sets("/../appstate", "x"), `set data: path "/../appstate" has the segment ".."`},
			{sets("/state", strings.Repeat("x", 1<<20)), "over the limit of 1048575 for a transaction"},
		} {
			responses, err := claim.Commit(s.Context(), sets("/state", "half"), c.op)
			require.ErrorContains(s, err, c.want)
			require.Empty(s, responses)
			require.False(s, errors.Is(err, recipes.ErrUncertain) || errors.Is(err, recipes.ErrLost), "%v", err)
		}
		require.NoError(s, claim.Err())
		require.Equal(s, "old", s.data("/app/state"))
		require.Equal(s, "of another team", s.data("/appstate"))
	})
}

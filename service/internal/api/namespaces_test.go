// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// namespaces returns what a principal is told about namespaces.
func (f *fixture) namespaces(who, query string) (found []map[string]any, next any) {
	f.t.Helper()
	r := f.send(who, "GET", "/v1/namespaces"+query, "")
	require.Equal(f.t, 200, r.status, "%s", r.body)
	for _, s := range r.json(f.t)["namespaces"].([]any) {
		found = append(found, s.(map[string]any))
	}
	return found, r.json(f.t)["nextPage"]
}

func TestNamespacesAreThoseOfTheCaller(t *testing.T) {
	old, waiter := held, lease.Contender{Contender: recipes.Contender{Owner: "next", Token: 42}}
	old.Since = time.UnixMilli(1_000_000)
	f := newFixture(t, &scripted{status: lease.Status{Contenders: []lease.Contender{old, waiter}}})
	f.names = []string{"own", "=probe", "team", "bad name"}
	for who, want := range map[string][]string{"client": {"own"}, "resident": {"default"}, "both": {"own", "team"}} {
		var names []string
		found, next := f.namespaces(who, "")
		for _, s := range found {
			names = append(names, s["namespace"].(string))
			require.EqualValues(t, 1, s["locks"])
			require.EqualValues(t, 1, s["waiters"])
			require.EqualValues(t, 1_000_000, s["heldSince"])
			require.NotZero(t, s["readAt"])
			require.Equal(t, true, s["more"], "the scripted list has a next page")
		}
		require.Equal(t, want, names)
		require.Nil(t, next)
	}
	require.Equal(t, 401, f.send("", "GET", "/v1/namespaces", "").status)
	require.Equal(t, 422, f.send("client", "GET", "/v1/namespaces?page=%2F", "").status)
}

func TestManyCallersReadANamespaceOnce(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{})
		for range 60 {
			f.names = append(f.names, fmt.Sprintf("n%02d", len(f.names)))
		}
		first, next := f.namespaces("both", "")
		require.Len(t, first, 50)
		require.Equal(t, "n49", next)
		for range 10 {
			f.namespaces("both", "")
		}
		require.Equal(t, 50, f.locks.count())
		rest, next := f.namespaces("both", "?page=n49")
		require.Len(t, rest, 10)
		require.Nil(t, next)
		time.Sleep(11 * time.Second)
		f.namespaces("both", "?page=n49")
		require.Equal(t, 70, f.locks.count(), "numbers older than 10 s are read again")
	})
}

func TestSlowNamespacesAreReadInTurn(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{listing: func(context.Context, string) error {
			time.Sleep(2 * time.Second)
			return nil
		}})
		f.names = []string{"a", "b", "c"}
		found, _ := f.namespaces("both", "")
		require.NotZero(t, found[1]["readAt"])
		require.Nil(t, found[2]["readAt"], "3 s have passed")
		found, _ = f.namespaces("both", "")
		require.NotZero(t, found[2]["readAt"])
		require.Equal(t, 3, f.locks.count())
	})
}

func TestNamespaceThatCannotBeReadIsReadByTheNextCall(t *testing.T) {
	f := newFixture(t, &scripted{err: errZooKeeper})
	require.Equal(t, "UNAVAILABLE", f.send("client", "GET", "/v1/namespaces", "").code(t))
	f.locks.err = nil
	found, _ := f.namespaces("client", "")
	require.True(t, slices.ContainsFunc(found, func(s map[string]any) bool { return s["readAt"] != nil }))
}

// busy returns a List that fails for some namespaces when its caller waits no longer.
func busy(parents ...string) func(context.Context, string) error {
	return func(ctx context.Context, parent string) error {
		if !slices.Contains(parents, parent) {
			return nil
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
}

func TestBusyNamespaceDoesNotHideTheOthers(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{listing: busy("/locks/a")})
		f.names = []string{"a", "b", "c"}
		began := time.Now()
		found, _ := f.namespaces("both", "")
		require.Equal(t, map[string]any{"namespace": "a", "locks": 0.0, "waiters": 0.0}, found[0])
		require.NotZero(t, found[1]["readAt"])
		require.Equal(t, 4*time.Second, time.Since(began))

		page := browser{f, "both", ownOrigin}.send("GET", "/", "")
		require.Equal(t, 200, page.status)
		require.Equal(t, 1, strings.Count(string(page.body), ">not counted<"))
		require.Equal(t, 4*time.Second, time.Since(began), "the next call does not wait for it again")
		require.Equal(t, 1, strings.Count(f.log.String(), "namespaces not counted"))
	})
}

func TestNumbersOfBusyNamespaceAreShownForAMinute(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{})
		f.names = []string{"a", "b"}
		first, _ := f.namespaces("both", "")
		f.locks.listing = busy("/locks/a")
		time.Sleep(11 * time.Second)
		found, _ := f.namespaces("both", "")
		require.Equal(t, first[0], found[0])
		time.Sleep(time.Minute)
		found, _ = f.namespaces("both", "")
		require.Nil(t, found[0]["readAt"])
		require.NotZero(t, found[1]["readAt"])
	})
}

func TestBusyNamespacesAreAnErrorIfNoNumbersAreKnown(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{listing: busy("/locks/a", "/locks/b", "/locks/c")})
		f.names = []string{"a", "b", "c", "d"}
		began := time.Now()
		require.Equal(t, "UNAVAILABLE", f.send("both", "GET", "/v1/namespaces", "").code(t))
		require.Equal(t, 10*time.Second, time.Since(began))
		found, _ := f.namespaces("both", "")
		require.NotZero(t, found[3]["readAt"], "the next call begins with the others")
	})
}

func TestNamespaceThatTheServiceMayNotReadDoesNotHideTheOthers(t *testing.T) {
	f := newFixture(t, &scripted{err: zk.ErrNoAuth})
	found, _ := f.namespaces("client", "")
	require.Equal(t, []map[string]any{{"namespace": "own", "locks": 0.0, "waiters": 0.0}}, found)
	page := browser{f, "client", ownOrigin}.send("GET", "/", "")
	require.Equal(t, 200, page.status)
	require.Contains(t, string(page.body), ">not counted<")
}

// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/zktest"
	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

func TestNextCreateBelowPathIsAnsweredWithScriptedError(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		require.NoError(t, e.Create("/locks", nil))
		c := connect(t, e, timeout)
		rule := e.Intercept(zktest.Rule{Op: "create", Below: "/locks", Times: 1, Fail: zktest.ErrNoAuth})
		c.create("/other", 0)
		require.Zero(t, rule.Fired())
		_, err := c.Create("/locks/a", nil, 0, zk.WorldACL(zk.PermAll))
		require.ErrorIs(t, err, zk.ErrNoAuth)
		_, _, err = e.Get("/locks/a")
		require.ErrorIs(t, err, zktest.ErrNoNode)
		c.create("/locks/a", 0)
		require.Equal(t, 1, rule.Fired())
	})
}

func TestThrottledTransactionIsRefusedAsAWholeAndHasNoZxid(t *testing.T) {
	e := zktest.Start(t, &zktest.Options{InMemory: true})
	c := dialRaw(t, e)
	newSession(t, c)
	e.Intercept(zktest.Rule{Op: "multi", Fail: zktest.ErrThrottled})
	before := e.Zxid()
	require.NoError(t, c.Send(rawclient.Request(1, wire.Multi{Ops: []any{wire.Create{Op: wire.OpCreate, Path: "/a", ACL: wire.World}}})))
	answer, err := c.Next(maxWait)
	require.NoError(t, err)
	require.Equal(t, wire.ThrottledOp, answer.Err)
	require.Empty(t, answer.Body)
	require.Equal(t, before, e.Zxid())
}

// The same requests are refused by the server itself, and by a rule.
func TestScriptedErrorEqualsServersOwn(t *testing.T) {
	create := func(path string) wire.Create { return wire.Create{Op: wire.OpCreate, Path: path, ACL: wire.World} }
	for name, of := range map[string]struct {
		req  func(path string) any
		fail error
	}{
		"create":   {func(path string) any { return create(path + "/child") }, zktest.ErrNoNode},
		"getData":  {func(path string) any { return wire.GetData{Path: path} }, zktest.ErrNoNode},
		"children": {func(path string) any { return wire.GetChildren{Path: path, WithStat: true} }, zktest.ErrNoNode},
		"setData":  {func(path string) any { return wire.SetData{Path: path, Version: -1} }, zktest.ErrNoNode},
		"multi": {func(path string) any {
			return wire.Multi{Ops: []any{create("/new"), wire.Delete{Path: path, Version: -1}, create("/newer")}}
		}, zktest.ErrNoNode},
		"auth": {func(path string) any {
			return wire.Auth{Scheme: map[string]string{"/missing": "unknown", "/there": "digest"}[path], Data: []byte("a:b")}
		}, zktest.ErrAuthFailed},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string]rawclient.Packet{}
			for _, path := range []string{"/missing", "/there"} {
				e := zktest.Start(t, &zktest.Options{InMemory: true})
				require.NoError(t, e.Create("/there", nil))
				c := dialRaw(t, e)
				newSession(t, c)
				if path == "/there" {
					rule := zktest.Rule{Path: path, Fail: of.fail}
					switch name {
					case "create":
						rule.Path = path + "/child"
					case "auth":
						rule.Path, rule.Op = "", "auth"
					}
					e.Intercept(rule)
				}
				require.NoError(t, c.Send(rawclient.Request(1, of.req(path))))
				p, err := c.Next(maxWait)
				require.NoError(t, err)
				answers[path] = p
				names, err := e.Children("/")
				require.NoError(t, err)
				require.Equal(t, []string{"there", "zookeeper"}, names)
				if name == "auth" {
					_, err = c.Next(maxWait)
					require.ErrorIs(t, err, rawclient.ErrEnded)
				}
			}
			require.Equal(t, answers["/missing"], answers["/there"])
		})
	}
}

func TestHeldReplyShowsStateAtRequest(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		require.NoError(t, e.Create("/colour", []byte("blue")))
		c := connect(t, e, timeout)
		rule := e.Intercept(zktest.Rule{Op: "getData", Path: "/colour", Hold: zktest.ToClient})
		got := make(chan string, 1)
		go func() {
			data, _, err := c.Get("/colour")
			got <- fmt.Sprint(string(data), err)
		}()
		waitFor(t, "the reply is held", func() bool { return rule.Held() == 1 })
		require.NoError(t, e.Set("/colour", []byte("red")))
		require.Empty(t, got)
		rule.Release()
		require.Equal(t, "blue<nil>", <-got)
		require.Zero(t, rule.Held())
	})
}

func TestHeldRequestIsCarriedOutAtRelease(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		c := connect(t, e, timeout)
		other := connect(t, e, timeout)
		rule := e.Intercept(zktest.Rule{Op: "create", Path: "/late", Hold: zktest.ToServer})
		done := make(chan error, 1)
		go func() {
			_, err := c.Create("/late", nil, 0, zk.WorldACL(zk.PermAll))
			done <- err
		}()
		waitFor(t, "the request is held", func() bool { return rule.Held() == 1 })
		other.create("/other", 0)
		_, _, err := e.Get("/late")
		require.ErrorIs(t, err, zktest.ErrNoNode)
		rule.Remove()
		require.NoError(t, <-done)
		_, _, err = e.Get("/late")
		require.NoError(t, err)
	})
}

func TestHeldRequestEndsWithItsEnsemble(t *testing.T) {
	for _, d := range []zktest.Direction{zktest.ToServer, zktest.ToClient, zktest.Both} {
		faketime.Test(t, func(t *testing.T) { // a bubble fails if goroutines remain
			e := inMemory(t, zktest.Options{})
			c := connect(t, e, timeout)
			rule := e.Intercept(zktest.Rule{Op: "create", Hold: d})
			done := make(chan error, 1)
			go func() {
				_, err := c.Create("/late", nil, 0, zk.WorldACL(zk.PermAll))
				done <- err
			}()
			waitFor(t, "the request or its reply is held", func() bool { return rule.Held() == 1 })
			require.NoError(t, e.Close())
			require.Error(t, <-done)
		})
	}
}

func TestReleaseFromBeforeIsNotMissed(t *testing.T) {
	for _, d := range []zktest.Direction{zktest.ToServer, zktest.ToClient} {
		faketime.Test(t, func(t *testing.T) {
			e := inMemory(t, zktest.Options{})
			c := connect(t, e, timeout)
			var rule *zktest.Interceptor
			rule = e.Intercept(zktest.Rule{Op: "create", Hold: d, Before: func(zktest.Request) { rule.Release() }})
			c.create("/a", 0)
		})
	}
}

func TestReplyIsDelayed(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		c := connect(t, e, timeout)
		e.Intercept(zktest.Rule{Op: "create", Path: "/a", Delay: 50 * time.Millisecond})
		e.Intercept(zktest.Rule{Path: "/a", Delay: 10 * time.Millisecond, Times: 1})
		for _, want := range []time.Duration{60 * time.Millisecond, 50 * time.Millisecond} {
			began := time.Now()
			_, _ = c.Create("/a", nil, 0, zk.WorldACL(zk.PermAll))
			require.Equal(t, want, time.Since(began))
		}
	})
}

func TestRequestOrItsReplyIsLost(t *testing.T) {
	for _, lose := range []zktest.Direction{zktest.ToServer, zktest.ToClient} {
		faketime.Test(t, func(t *testing.T) {
			e := inMemory(t, zktest.Options{})
			c := connect(t, e, timeout)
			rule := e.Intercept(zktest.Rule{Op: "create", Path: "/lost", Times: 1, Lose: lose})
			c.create("/kept", 0)
			_, err := c.Create("/lost", nil, 0, zk.WorldACL(zk.PermAll))
			require.ErrorIs(t, err, zk.ErrConnectionClosed)
			require.Equal(t, 1, rule.Fired())
			_, _, err = e.Get("/lost")
			require.Equal(t, lose == zktest.ToClient, err == nil, "whether it was carried out")
			waitFor(t, "the client is served again", func() bool { _, _, err := c.Get("/"); return err == nil })
		})
	}
}

func TestHandshakeIsLost(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		lost := e.Intercept(zktest.Rule{Op: "connect", Times: 2, Lose: zktest.ToServer})
		connect(t, e, timeout)
		require.Equal(t, 2, lost.Fired())
		require.Equal(t, []zktest.Count{{Op: "connect", Requests: 2, Received: 2 * 48}}, lost.Counts())
	})
}

func TestCountsAreByOperationAndPathWithBytes(t *testing.T) {
	e := zktest.Start(t, &zktest.Options{InMemory: true})
	require.NoError(t, e.Create("/a", []byte("12345")))
	c := dialRaw(t, e)
	newSession(t, c)
	rule := e.Intercept(zktest.Rule{})
	events := e.Intercept(zktest.Rule{Op: "notification"})
	var want []zktest.Count
	exchange := func(op, path string, req any) {
		frame := rawclient.Request(1, req)
		require.NoError(t, c.Send(frame))
		p, err := c.Next(maxWait)
		require.NoError(t, err)
		want = append(want, zktest.Count{Op: op, Path: path, Requests: 1, Received: int64(len(frame)), Sent: int64(len(p.Body)) + 20})
	}
	exchange("create", "/b", wire.Create{Op: wire.OpCreate, Path: "/b", ACL: wire.World})
	exchange("getData", "/a", wire.GetData{Path: "/a", Watch: true})
	exchange("multi", "/a", wire.Multi{Ops: []any{wire.Check{Path: "/a", Version: 0}, wire.Delete{Path: "/b", Version: 0}}})
	exchange("ping", "", wire.Ping{})
	require.Equal(t, want, rule.Counts())
	require.Equal(t, 4, rule.Fired())

	require.NoError(t, e.Set("/a", nil))
	p, err := c.Next(maxWait)
	require.NoError(t, err)
	require.True(t, p.IsEvent())
	require.Equal(t, []zktest.Count{{Op: "notification", Path: "/a", Requests: 1, Sent: int64(len(p.Body)) + 20}}, events.Counts())
	rule.Remove()
	require.NoError(t, c.Send(rawclient.Request(1, wire.Ping{})))
	_, err = c.Next(maxWait)
	require.NoError(t, err)
	require.Equal(t, want, rule.Counts())
}

func TestBeforeIsCalledAheadOfRequest(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		c := connect(t, e, timeout)
		c.create("/mine", zk.FlagEphemeral)
		var seen zktest.Request
		e.Intercept(zktest.Rule{Op: "setData", Path: "/mine", Times: 1, Before: func(r zktest.Request) {
			seen = r
			if err := e.Delete(r.Path); err != nil {
				panic(err)
			}
		}})
		_, err := c.Set("/mine", []byte("data"), 0)
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.Equal(t, []byte("data"), seen.Data)
		require.Equal(t, c.SessionID(), seen.Session)
	})
}

func TestRuleOfLinkOrSessionLeavesOtherClientsAlone(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		one, other := connect(t, e, timeout), connect(t, e, timeout)
		rules := []*zktest.Interceptor{
			one.link.Intercept(zktest.Rule{Op: "create", Fail: zktest.ErrThrottled}),
			e.Intercept(zktest.Rule{Session: one.SessionID(), Op: "delete", Fail: zktest.ErrNotEmpty}),
			e.Intercept(zktest.Rule{Op: "exists", When: func(r zktest.Request) bool { return r.Session == one.SessionID() }, Fail: zktest.ErrNoAuth}),
		}
		other.create("/a", 0)
		_, _, err := other.Exists("/a")
		require.NoError(t, err)
		require.NoError(t, other.Delete("/a", -1))
		_, err = one.Create("/a", nil, 0, zk.WorldACL(zk.PermAll))
		require.ErrorContains(t, err, "-127")
		require.ErrorIs(t, one.Delete("/a", -1), zk.ErrNotEmpty)
		_, _, err = one.Exists("/a")
		require.ErrorIs(t, err, zk.ErrNoAuth)
		for _, rule := range rules {
			require.Equal(t, 1, rule.Fired())
			rule.Remove()
		}
		one.create("/a", 0)
	})
}

func TestSkippedRequestsPass(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		c := connect(t, e, timeout)
		e.Intercept(zktest.Rule{Op: "create", Skip: 2, Times: 1, Fail: zktest.ErrNodeExists})
		for i, want := range []error{nil, nil, zk.ErrNodeExists, nil} {
			_, err := c.Create(fmt.Sprint("/n", i), nil, 0, zk.WorldACL(zk.PermAll))
			require.True(t, errors.Is(err, want), "%v", err)
		}
	})
}

func TestEventIsHeldOrLost(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		require.NoError(t, e.Create("/a", nil))
		c := connect(t, e, timeout)
		rule := e.Intercept(zktest.Rule{Op: "notification", Path: "/a", Hold: zktest.ToClient})
		_, _, events, err := c.GetW("/a")
		require.NoError(t, err)
		require.NoError(t, e.Set("/a", nil))
		require.Equal(t, 1, rule.Held())
		require.Empty(t, events)
		rule.Remove()
		require.Equal(t, zk.EventNodeDataChanged, (<-events).Type)

		e.Intercept(zktest.Rule{Op: "notification", Lose: zktest.ToClient, Times: 1})
		_, _, events, err = c.GetW("/a")
		require.NoError(t, err)
		began := time.Now()
		require.NoError(t, e.Delete("/a"))
		waitFor(t, "the connection ends", func() bool { return !c.since(zk.StateDisconnected, began).IsZero() })
		require.Equal(t, zk.EventNodeDeleted, (<-events).Type, "setWatches sends the event again after the client has reconnected")
	})
}

func TestRuleSelectsEveryRequestThatNamesPath(t *testing.T) {
	const path = "/some/path"
	for op, req := range map[string]any{
		"create": wire.Create{Op: wire.OpCreate, Path: path}, "create2": wire.Create{Op: wire.OpCreate2, Path: path},
		"createContainer": wire.Create{Op: wire.OpCreateContainer, Path: path}, "createTTL": wire.Create{Op: wire.OpCreateTTL, Path: path},
		"delete": wire.Delete{Path: path}, "setData": wire.SetData{Path: path}, "setACL": wire.SetACL{Path: path},
		"check": wire.Check{Path: path}, "exists": wire.Exists{Path: path}, "getData": wire.GetData{Path: path},
		"getACL": wire.GetACL{Path: path}, "getChildren": wire.GetChildren{Path: path},
		"getChildren2": wire.GetChildren{Path: path, WithStat: true}, "sync": wire.Sync{Path: path},
		"addWatch": wire.AddWatch{Path: path}, "checkWatches": wire.CheckWatches{Path: path}, "removeWatches": wire.RemoveWatches{Path: path},
		"getEphemerals": wire.GetEphemerals{Prefix: path}, "getAllChildrenNumber": wire.GetAllChildrenNumber{Path: path},
		"multi":     wire.Multi{Ops: []any{wire.Check{Path: "/"}, wire.Delete{Path: path}}},
		"multiRead": wire.MultiRead{Ops: []any{wire.GetChildren{Path: "/"}, wire.GetData{Path: path}}},
	} {
		t.Run(op, func(t *testing.T) {
			e := zktest.Start(t, &zktest.Options{InMemory: true})
			c := dialRaw(t, e)
			newSession(t, c)
			e.Intercept(zktest.Rule{Op: op, Path: path, Fail: zktest.ErrOperationTimeout})
			below := e.Intercept(zktest.Rule{Below: "/some"})
			before := e.Zxid()
			require.NoError(t, c.Send(rawclient.Request(1, req)))
			p, err := c.Next(maxWait)
			require.NoError(t, err)
			_, writes := map[string]bool{
				"create": true, "create2": true, "createContainer": true, "createTTL": true, "delete": true,
				"setData": true, "setACL": true, "check": true, "multi": true,
			}[op]
			require.Equal(t, writes, e.Zxid() > before, "a refused write has a zxid, a failed read has none")
			if op == "multi" {
				require.Contains(t, string(p.Body), "\xff\xff\xff\xf9", "-7, of one operation")
			} else {
				require.Equal(t, wire.OperationTimeout, p.Err)
				require.Empty(t, p.Body)
			}
			require.Equal(t, 1, below.Fired())
		})
	}
}

func TestInvalidRuleIsRejected(t *testing.T) {
	nothing := func(zktest.Request) {}
	for says, rule := range map[string]zktest.Rule{
		`operation "craete": must be one of addWatch, auth,`:      {Op: "craete"},
		`operation "createSession": must be one of`:               {Op: "createSession"},
		`path "/a" and below "/b": set one of them`:               {Path: "/a", Below: "/b"},
		`path "a": must begin with /`:                             {Path: "a"},
		`below "/a/": must begin with / and not end with one`:     {Below: "/a/"},
		`skip -1 is negative`:                                     {Skip: -1},
		`times -1 is negative`:                                    {Times: -1},
		`delay -1ns is negative`:                                  {Delay: -1},
		`hold 4: must be ToServer, ToClient or both`:              {Hold: 4},
		`lose both: must be ToServer or ToClient`:                 {Lose: zktest.Both},
		`lose: excludes Fail, Delay and holding the reply`:        {Lose: zktest.ToClient, Delay: 1},
		`fail "nonsense": must be an error that a server answers`: {Fail: errors.New("nonsense")},
		`fail "NoAuth": operation "ping" cannot fail`:             {Op: "ping", Fail: zktest.ErrNoAuth},
		`operation "notification": excludes When, Before`:         {Op: "notification", Before: nothing},
	} {
		tb := &fakeTB{}
		e := zktest.Start(tb, &zktest.Options{InMemory: true})
		rule := e.Intercept(rule)
		require.Len(t, tb.fatals, 1, says)
		require.Contains(t, tb.fatals[0], "zktest: intercept: rule: "+says)
		require.Zero(t, rule.Fired())
		rule.Remove()
		tb.end()
	}
}

func TestRuleForAllRequestsDoesNotFailPingsAndHandshakes(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		rule := e.Intercept(zktest.Rule{Fail: zktest.ErrNoAuth})
		c := connect(t, e, timeout)
		time.Sleep(time.Minute) // in fake time
		require.True(t, c.since(zk.StateDisconnected, time.Time{}).IsZero())
		require.Zero(t, rule.Fired())
	})
}

// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

var (
	bob   = tree.Identity{Scheme: "digest", ID: "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="}
	al    = tree.Identity{Scheme: "digest", ID: "al:E2WgW72KiEUG4R7vIVBkt6SPXyA="}
	local = tree.Identity{Scheme: "ip", ID: "127.0.0.1"}
	super = tree.Identity{Scheme: "super"}
)

func entry(perms int32, scheme, id string) wire.ACL {
	return wire.ACL{Perms: perms, Scheme: scheme, ID: id}
}

func TestACLWithUnknownSchemeOrInvalidIDIsRefused(t *testing.T) {
	for _, c := range []struct {
		scheme, id string
		ok         bool
	}{
		{"world", "anyone", true},
		{"world", "x", false},
		{"", "", false},
		{"digest", "a:b", true},
		{"digest", ":b", true},
		{"digest", "a:b:", true},
		{"digest", "a:b::", true},
		{"digest", "a::b", false},
		{"digest", "a", false},
		{"digest", "a:", false},
		{"digest", "::", false},
		{"digest", "", false},
		{"ip", "1.2.3.4", true},
		{"ip", "1.2.3.4/0", true},
		{"ip", "1.2.3.4/+8", true},
		{"ip", "1.2.3.4/32", true},
		{"ip", "1.2.3.4/33", false},
		{"ip", "1.2.3.4/-1", false},
		{"ip", "1.2.3.4/", false},
		{"ip", "1.2.3.4/8/8", false},
		{"ip", "1.2.3.256", false},
		{"ip", "1.2.3", false},
		{"ip", "::1", false},
		{"x509", "CN=x", false}, // needs configuration, as sasl does
		{"sasl", "u", false},
		{"super", "", false},
		{"auth", "", false}, // without a credential
		{"auth", "zz", false},
	} {
		want := wire.InvalidACL
		if c.ok {
			want = wire.OK
		}
		for _, acl := range [][]wire.ACL{
			{entry(31, c.scheme, c.id)},
			{entry(0, "world", "anyone"), entry(99, c.scheme, c.id)},
		} {
			a := newServer()
			require.Equal(t, want, a.do(wire.Create{Op: wire.OpCreate, Path: "/n", ACL: acl}, local).Code, "%+v", c)
			require.Equal(t, want, a.do(wire.SetACL{Path: "/", ACL: acl, Version: -1}, local).Code, "%+v", c)
		}
	}
	require.Equal(t, wire.InvalidACL, newServer().do(wire.Create{Op: wire.OpCreate, Path: "/n"}).Code)
}

func TestAuthStandsForSessionsCredentials(t *testing.T) {
	a := newServer()
	acl := []wire.ACL{entry(31, "auth", ""), entry(1, "world", "anyone"), entry(31, "auth", ""), entry(31, "digest", "bob:x"), entry(3, "auth", "whatever")}
	require.Equal(t, wire.OK, a.do(wire.Create{Op: wire.OpCreate, Path: "/n", ACL: acl}, local, bob, super, al).Code)
	got, stat, code := a.ACL("/n", []tree.Identity{bob})
	require.Equal(t, wire.OK, code)
	require.Equal(t, a.stat(t, "/n"), stat)
	require.Equal(t, []wire.ACL{
		entry(31, "digest", bob.ID), entry(31, "digest", al.ID), entry(1, "world", "anyone"), entry(31, "digest", "bob:x"),
		entry(3, "digest", bob.ID), entry(3, "digest", al.ID),
	}, got)
}

func TestReadersOfACLDoNotSeeDigests(t *testing.T) {
	a := newServer()
	for path, acl := range map[string][]wire.ACL{
		"/read":  {entry(wire.PermRead, "world", "anyone"), entry(31, "digest", bob.ID), entry(1, "digest", "a:b\nc"), entry(1, "ip", "1.2.3.4")},
		"/admin": {entry(wire.PermAdmin, "world", "anyone"), entry(31, "digest", bob.ID)},
		"/none":  {entry(31&^(wire.PermRead|wire.PermAdmin), "world", "anyone")},
	} {
		a.must(t, wire.Create{Op: wire.OpCreate, Path: path, ACL: acl})
	}
	for _, c := range []struct {
		path string
		who  []tree.Identity
		want []wire.ACL
		code wire.Code
	}{
		{"/read", []tree.Identity{al}, []wire.ACL{entry(wire.PermRead, "world", "anyone"), entry(31, "digest", "bob:x"), entry(1, "digest", "a:x\nc"), entry(1, "ip", "1.2.3.4")}, wire.OK},
		{"/read", []tree.Identity{bob}, []wire.ACL{entry(wire.PermRead, "world", "anyone"), entry(31, "digest", bob.ID), entry(1, "digest", "a:b\nc"), entry(1, "ip", "1.2.3.4")}, wire.OK},
		{"/admin", nil, []wire.ACL{entry(wire.PermAdmin, "world", "anyone"), entry(31, "digest", bob.ID)}, wire.OK},
		{"/none", nil, nil, wire.NoAuth},
		{"/none", []tree.Identity{super}, []wire.ACL{entry(31&^(wire.PermRead|wire.PermAdmin), "world", "anyone")}, wire.OK},
		{"/missing", nil, nil, wire.NoNode},
	} {
		got, _, code := a.ACL(c.path, c.who)
		require.Equal(t, c.code, code, c.path)
		require.Equal(t, c.want, got, c.path)
	}
}

func TestChangesCarryACLs(t *testing.T) {
	a := newServer()
	bobs := []wire.ACL{entry(wire.PermAll, "auth", "")}
	theirs := []wire.ACL{entry(wire.PermAll, "digest", bob.ID)}
	require.True(t, tree.Readable(theirs, []tree.Identity{bob}))
	require.False(t, tree.Readable(theirs, []tree.Identity{al}))
	for _, step := range []struct {
		req  any
		want tree.Change
	}{
		{wire.Create{Op: wire.OpCreate, Path: "/p", ACL: bobs}, tree.Change{Type: wire.EventNodeCreated, Path: "/p", ACL: theirs, ParentACL: wire.World}},
		{create("/p/c", 0), tree.Change{Type: wire.EventNodeCreated, Path: "/p/c", ACL: wire.World, ParentACL: theirs}},
		{set("/p"), tree.Change{Type: wire.EventNodeDataChanged, Path: "/p", ACL: theirs}},
		{remove("/p/c"), tree.Change{Type: wire.EventNodeDeleted, Path: "/p/c", ACL: wire.World, ParentACL: theirs}},
		{remove("/p"), tree.Change{Type: wire.EventNodeDeleted, Path: "/p", ACL: theirs, ParentACL: wire.World}},
	} {
		require.Equal(t, []tree.Change{step.want}, a.do(step.req, bob).Changes)
	}
}

func TestEachRequestRequiresItsPermission(t *testing.T) {
	tries := []struct {
		perms int32 // one of these is enough
		do    func(a *server, who ...tree.Identity) wire.Code
	}{
		{wire.PermRead, func(a *server, who ...tree.Identity) wire.Code { _, _, code := a.Get("/n", who); return code }},
		{wire.PermRead, func(a *server, who ...tree.Identity) wire.Code { _, _, code := a.Children("/n", who); return code }},
		{wire.PermRead, func(a *server, who ...tree.Identity) wire.Code { _, code := a.CountDescendants("/n", who); return code }},
		{wire.PermRead | wire.PermAdmin, func(a *server, who ...tree.Identity) wire.Code { _, _, code := a.ACL("/n", who); return code }},
		{wire.PermRead, func(a *server, who ...tree.Identity) wire.Code {
			return a.do(wire.Check{Path: "/n", Version: -1}, who...).Code
		}},
		{wire.PermWrite, func(a *server, who ...tree.Identity) wire.Code { return a.do(set("/n"), who...).Code }},
		{wire.PermCreate, func(a *server, who ...tree.Identity) wire.Code { return a.do(create("/n/x", 0), who...).Code }},
		{wire.PermDelete, func(a *server, who ...tree.Identity) wire.Code { return a.do(remove("/n/old"), who...).Code }},
		{wire.PermDelete, func(a *server, who ...tree.Identity) wire.Code { return a.do(multi(remove("/n/old")), who...).Err() }},
		{wire.PermAdmin, func(a *server, who ...tree.Identity) wire.Code {
			return a.do(wire.SetACL{Path: "/n", ACL: wire.World, Version: -1}, who...).Code
		}},
		{0, func(a *server, _ ...tree.Identity) wire.Code { _, code := a.Exists("/n"); return code }},
		{0, func(a *server, who ...tree.Identity) wire.Code { return a.do(remove("/n/old/x"), who...).Code }},
	}
	for i, try := range tries {
		for perm := wire.PermRead; perm <= wire.PermAdmin; perm <<= 1 {
			for _, c := range []struct {
				acl wire.ACL
				who []tree.Identity
				has bool
			}{
				{entry(perm, "world", "anyone"), nil, true},
				{entry(perm, "digest", bob.ID), []tree.Identity{local, bob}, true},
				{entry(perm, "digest", bob.ID), []tree.Identity{local, al}, false},
				{entry(perm, "digest", "bob:other"), []tree.Identity{bob}, false},
				{entry(perm, "ip", "127.0.0.1"), []tree.Identity{local}, true},
				{entry(perm, "ip", "127.0.0.0/8"), []tree.Identity{local}, true},
				{entry(perm, "ip", "126.0.0.0/7"), []tree.Identity{local}, true},
				{entry(perm, "ip", "126.0.0.0/8"), []tree.Identity{local}, false},
				{entry(perm, "ip", "10.0.0.0/0"), []tree.Identity{local}, true},
				{entry(perm, "ip", "0.0.0.0/0"), []tree.Identity{{Scheme: "ip", ID: "0:0:0:0:0:0:0:1"}}, false},
				{entry(perm, "ip", "127.0.0.1"), []tree.Identity{{Scheme: "digest", ID: "127.0.0.1"}}, false},
				{entry(perm, "digest", bob.ID), []tree.Identity{super}, true},
			} {
				a := newServer()
				a.must(t, create("/n", 0), create("/n/old", 0), create("/n/old/x", 0),
					wire.SetACL{Path: "/n", ACL: []wire.ACL{c.acl}, Version: -1})
				allowed := try.perms == 0 || c.has && (try.perms&perm != 0 || c.who != nil && c.who[0] == super)
				want := wire.OK
				switch {
				case !allowed:
					want = wire.NoAuth
				case i == 7 || i == 8:
					want = wire.NotEmpty // which is checked last
				}
				require.Equal(t, want, try.do(a, c.who...), fmt.Sprintf("request %d, %+v by %v", i, c.acl, c.who))
			}
		}
	}
}

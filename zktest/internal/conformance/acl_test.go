// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// Identities of the scenarios: the digests of "ann:secret" and "bob:secret".
const (
	ann = "ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM="
	bob = "bob:fyVmFCwVbTJYrznoSu1koqYEYF0="
)

var permissions = []scenario{
	{"each permission allows its operations", func(s *run) {
		a := s.session("a")
		for perms := int32(0); perms <= wire.PermAll; perms = max(1, perms*2) {
			path := fmt.Sprintf("/probe/p%d", perms)
			a.do(createACL(path, acl("world", "anyone", wire.PermAll), keeper))
			a.do(create(path+"/child", wire.Persistent))
			a.do(setACL(path, -1, acl("world", "anyone", perms), keeper))
			for _, req := range []any{
				exists(path), get(path), names(path), children(path), getACL(path),
				wire.GetAllChildrenNumber{Path: path},
				wire.Sync{Path: path},
				multiRead(get(path), names(path)), set(path, -1), create(path+"/n", wire.Persistent), create2(path+"/s-", wire.EphemeralSequential),
				createContainer(path + "/c"), deletion(path+"/child", -1), deletion(path+"/missing", -1), multi(check(path, -1)), multi(set(path, -1)),
				multi(create(path+"/m", wire.Persistent)), multi(deletion(path+"/m", -1)), existsW(path), getW(path), childrenW(path),
				wire.AddWatch{Path: path},
				setACL(path, 7, wire.World...), setACL(path, -1, acl("world", "anyone", perms), keeper),
			} {
				a.do(req)
			}
			if perms == wire.PermAll {
				break
			}
		}
		a.do(deletion("/probe/p0/child", -1))
		a.do(deletion("/probe/p0", -1))
	}},
	{"delete needs a permission on the parent only", func(s *run) {
		a := s.session("a")
		a.do(createACL("/probe/n", acl("world", "anyone", 0)))
		a.do(get("/probe/n"))
		a.do(getACL("/probe/n"))
		a.do(deletion("/probe/n", -1))
		a.do(createACL("/probe/p", acl("world", "anyone", wire.PermAll&^wire.PermDelete), keeper))
		a.do(create("/probe/p/n", wire.Ephemeral))
		a.do(deletion("/probe/p/n", -1))
		a.closeSession()
		b := s.session("b")
		b.do(children("/probe/p"))
	}},
	{"the order of checks", func(s *run) {
		a := s.session("a")
		a.do(createACL("/probe/p", acl("world", "anyone", wire.PermAll), keeper))
		a.do(create("/probe/p/n", wire.Persistent))
		a.do(create("/probe/p/n/n", wire.Persistent))
		a.do(setACL("/probe/p", -1, acl("world", "anyone", 0), keeper))
		for _, req := range []any{
			create("/probe/p/n", wire.Persistent), createACL("/probe/p/n"), create("/probe/p/n", 9), deletion("/probe/p/n", 5), deletion("/probe/p/missing", -1),
			set("/probe/p", 5), setACL("/probe/p", 5), createACL("/probe/missing/n"), createACL("/probe/p/n/n"), create("/probe/p\x00", 9),
			createACL("/probe/p/\x00"), deletion("/probe/p/n/n", 7), deletion("/probe/p/n", -1), setACL("/probe/missing", -1),
			containerWithFlags("/probe/missing/c", 9),
		} {
			a.do(req)
		}
		a.do(create("/probe/e", wire.Ephemeral))
		a.do(create("/probe/e/", wire.Persistent))
		a.do(createACL("/probe/e/n"))
		a.do(create("/probe/e/n", wire.Persistent))
	}},
	{"a digest credential grants access", func(s *run) {
		a, b := s.session("a"), s.session("b")
		a.do(createACL("/probe/n", acl("digest", ann, wire.PermAll), keeper))
		a.do(get("/probe/n"))
		a.do(auth("digest", "ann:wrong"))
		a.do(get("/probe/n"))
		a.do(auth("digest", "ann:secret"))
		a.do(get("/probe/n"))
		a.do(getACL("/probe/n"))
		a.do(wire.WhoAmI{})
		a.do(create("/probe/n/child", wire.Persistent))
		b.do(get("/probe/n"))
		b.do(getACL("/probe/n"))
		b.do(deletion("/probe/n/child", -1))
		b.do(auth("digest", "bob:secret"))
		b.do(set("/probe/n", -1))
		b.do(auth("digest", "ann:secret"))
		b.do(set("/probe/n", -1))
		b.do(wire.WhoAmI{})
	}},
	{"auth stands for the session's identities", func(s *run) {
		a, b := s.session("a"), s.session("b")
		a.do(createACL("/probe/n", acl("auth", "", wire.PermAll)))
		a.do(auth("digest", "keeper:keeper"))
		a.do(createACL("/probe/n", acl("auth", "whatever", wire.PermRead|wire.PermAdmin)))
		a.do(getACL("/probe/n"))
		s.unordered = true
		a.do(auth("digest", "ann:secret"))
		a.do(createACL("/probe/m", acl("auth", "", wire.PermAll), acl("world", "anyone", wire.PermRead)))
		a.do(getACL("/probe/m"))
		a.do(setACL("/probe/n", -1, acl("auth", "", wire.PermAll)))
		a.do(getACL("/probe/n"))
		a.do(multi(createACL("/probe/o", acl("auth", "", wire.PermAll))))
		a.do(getACL("/probe/o"))
		b.do(getACL("/probe/m"))
		b.do(getACL("/probe/n"))
		b.do(set("/probe/m", -1))
		b.do(deletion("/probe/m", -1))
	}},
	{"an ACL's digests are visible to identities that may change it", func(s *run) {
		a, b := s.session("a"), s.session("b")
		a.do(createACL("/probe/n", keeper, acl("digest", ann, wire.PermRead|wire.PermAdmin), acl("digest", bob, wire.PermRead),
			acl("world", "anyone", wire.PermWrite), acl("ip", "192.0.2.1", wire.PermRead)))
		a.do(getACL("/probe/n"))
		a.do(auth("digest", "bob:secret"))
		a.do(getACL("/probe/n"))
		b.do(auth("digest", "ann:secret"))
		b.do(getACL("/probe/n"))
		b.do(createACL("/probe/m", keeper, acl("world", "anyone", wire.PermRead)))
		b.do(getACL("/probe/m"))
	}},
	{"an invalid ACL is refused", func(s *run) {
		a := s.session("a")
		a.do(create("/probe/n", wire.Persistent))
		for _, wrong := range []wire.ACL{
			acl("world", "me", wire.PermAll), acl("world", "", wire.PermAll), acl("", "", wire.PermAll), acl("bogus", "x", wire.PermAll),
			acl("digest", "", wire.PermAll), acl("digest", "ann", wire.PermAll), acl("digest", "a:b:c", wire.PermAll), acl("digest", "a:b", wire.PermAll),
			acl("ip", "", wire.PermAll), acl("ip", "1.2.3", wire.PermAll), acl("ip", "1.2.3.4/33", wire.PermAll), acl("ip", "1.2.3.4/-1", wire.PermAll),
			acl("ip", "1.2.3.256", wire.PermAll), acl("ip", "::1", wire.PermAll), acl("ip", "1.2.3.4", wire.PermAll), acl("ip", "1.2.3.4/8", wire.PermAll),
			acl("ip", "1.2.3.4/", wire.PermAll), acl("ip", "1.2.3.4/x", wire.PermAll), acl("ip", "localhost", wire.PermAll), acl("ip", "1.2.3.4/8/9", wire.PermAll),
			acl("super", "x", wire.PermAll), acl("x509", "cn=x", wire.PermAll), acl("sasl", "x", wire.PermAll), acl("auth", "x", wire.PermAll),
			acl("world", "anyone", 0), acl("world", "anyone", 32), acl("world", "anyone", -1), acl("WORLD", "anyone", 31),
		} {
			a.do(createACL("/probe/m", wrong))
			a.do(getACL("/probe/m"))
			a.do(deletion("/probe/m", -1))
			a.do(setACL("/probe/n", 99, wrong))
		}
		a.do(createACL("/probe/m"))
		a.do(createACL("/probe/m", acl("world", "anyone", 31), acl("bogus", "x", 31)))
		a.do(createACL("/probe/m", acl("world", "anyone", 31), acl("world", "anyone", 31), acl("world", "anyone", 1)))
		a.do(getACL("/probe/m"))
		a.do(setACL("/probe/m", -1, keeper, keeper, acl("world", "anyone", 1)))
		a.do(getACL("/probe/m"))
	}},
	{"an ACL may name an address", func(s *run) {
		a := s.session("a")
		for i, id := range []string{"0.0.0.0/0", "255.255.255.255", "0.0.0.0/1", "255.255.255.255/1"} {
			path := fmt.Sprint("/probe/n", i)
			a.do(createACL(path, acl("ip", id, wire.PermAll)))
			if i < 2 {
				a.do(get(path))
			}
		}
	}},
	{"an unknown scheme ends the connection", func(s *run) {
		for i, credential := range []wire.Auth{
			auth("bogus", "x"), auth("", ""), auth("world", "anyone"), auth("auth", ""), auth("super", "x"), auth("x509", "x"), auth("sasl", "x"),
		} {
			p := s.session(fmt.Sprint("p", i))
			p.do(create(fmt.Sprint("/probe/e", i), wire.Ephemeral))
			p.do(credential)
			p.do(exists(root))
		}
		a := s.session("a")
		a.do(children(root))
	}},
	{"odd credentials are accepted", func(s *run) {
		a := s.session("a")
		for _, credential := range []wire.Auth{
			auth("digest", "nocolon"), auth("digest", ""), auth("digest", "a:"), auth("digest", ":b"), auth("digest", "a:b:c"), auth("digest", "a:b:c"),
			auth("ip", ""), auth("ip", "10.0.0.1"),
			{Scheme: "ip"},
			{Scheme: "digest"},
		} {
			a.do(credential)
			a.do(wire.WhoAmI{})
		}
	}},
	{"credentials end with the connection", func(s *run) {
		a := s.session("a")
		a.do(auth("digest", "keeper:keeper"))
		a.do(createACL("/probe/n", keeper))
		a.do(get("/probe/n"))
		b := s.dial("b")
		b.attach(a)
		b.do(get("/probe/n"))
		b.do(wire.WhoAmI{})
	}},
}

// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// Identities of the scenarios: what the digest scheme makes of "ann:secret" and "bob:secret".
const (
	ann = "ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM="
	bob = "bob:fyVmFCwVbTJYrznoSu1koqYEYF0="
)

var permissions = []scenario{
	{"each permission allows what it names", func(s *stage) {
		a := s.session("a")
		for perms := int32(0); perms <= wire.PermAll; perms = max(1, perms*2) {
			path := fmt.Sprintf("/stage/p%d", perms)
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
		a.do(deletion("/stage/p0/child", -1))
		a.do(deletion("/stage/p0", -1))
	}},
	{"deleting needs a permission on the parent only", func(s *stage) {
		a := s.session("a")
		a.do(createACL("/stage/n", acl("world", "anyone", 0)))
		a.do(get("/stage/n"))
		a.do(getACL("/stage/n"))
		a.do(deletion("/stage/n", -1))
		a.do(createACL("/stage/p", acl("world", "anyone", wire.PermAll&^wire.PermDelete), keeper))
		a.do(create("/stage/p/n", wire.Ephemeral))
		a.do(deletion("/stage/p/n", -1))
		a.bye()
		b := s.session("b")
		b.do(children("/stage/p"))
	}},
	{"the order of checks", func(s *stage) {
		a := s.session("a")
		a.do(createACL("/stage/p", acl("world", "anyone", wire.PermAll), keeper))
		a.do(create("/stage/p/n", wire.Persistent))
		a.do(create("/stage/p/n/n", wire.Persistent))
		a.do(setACL("/stage/p", -1, acl("world", "anyone", 0), keeper))
		for _, req := range []any{
			create("/stage/p/n", wire.Persistent), createACL("/stage/p/n"), create("/stage/p/n", 9), deletion("/stage/p/n", 5), deletion("/stage/p/missing", -1),
			set("/stage/p", 5), setACL("/stage/p", 5), createACL("/stage/missing/n"), createACL("/stage/p/n/n"), create("/stage/p\x00", 9),
			createACL("/stage/p/\x00"), deletion("/stage/p/n/n", 7), deletion("/stage/p/n", -1), setACL("/stage/missing", -1),
			containerWithFlags("/stage/missing/c", 9),
		} {
			a.do(req)
		}
		a.do(create("/stage/e", wire.Ephemeral))
		a.do(create("/stage/e/", wire.Persistent))
		a.do(createACL("/stage/e/n"))
		a.do(create("/stage/e/n", wire.Persistent))
	}},
	{"a digest opens what it names", func(s *stage) {
		a, b := s.session("a"), s.session("b")
		a.do(createACL("/stage/n", acl("digest", ann, wire.PermAll), keeper))
		a.do(get("/stage/n"))
		a.do(auth("digest", "ann:wrong"))
		a.do(get("/stage/n"))
		a.do(auth("digest", "ann:secret"))
		a.do(get("/stage/n"))
		a.do(getACL("/stage/n"))
		a.do(wire.WhoAmI{})
		a.do(create("/stage/n/child", wire.Persistent))
		b.do(get("/stage/n"))
		b.do(getACL("/stage/n"))
		b.do(deletion("/stage/n/child", -1))
		b.do(auth("digest", "bob:secret"))
		b.do(set("/stage/n", -1))
		b.do(auth("digest", "ann:secret"))
		b.do(set("/stage/n", -1))
		b.do(wire.WhoAmI{})
	}},
	{"auth stands for who one is", func(s *stage) {
		a, b := s.session("a"), s.session("b")
		a.do(createACL("/stage/n", acl("auth", "", wire.PermAll)))
		a.do(auth("digest", "keeper:keeper"))
		a.do(createACL("/stage/n", acl("auth", "whatever", wire.PermRead|wire.PermAdmin)))
		a.do(getACL("/stage/n"))
		s.unordered = true
		a.do(auth("digest", "ann:secret"))
		a.do(createACL("/stage/m", acl("auth", "", wire.PermAll), acl("world", "anyone", wire.PermRead)))
		a.do(getACL("/stage/m"))
		a.do(setACL("/stage/n", -1, acl("auth", "", wire.PermAll)))
		a.do(getACL("/stage/n"))
		a.do(multi(createACL("/stage/o", acl("auth", "", wire.PermAll))))
		a.do(getACL("/stage/o"))
		b.do(getACL("/stage/m"))
		b.do(getACL("/stage/n"))
		b.do(set("/stage/m", -1))
		b.do(deletion("/stage/m", -1))
	}},
	{"an ACL's digests show to those who may change it", func(s *stage) {
		a, b := s.session("a"), s.session("b")
		a.do(createACL("/stage/n", keeper, acl("digest", ann, wire.PermRead|wire.PermAdmin), acl("digest", bob, wire.PermRead),
			acl("world", "anyone", wire.PermWrite), acl("ip", "192.0.2.1", wire.PermRead)))
		a.do(getACL("/stage/n"))
		a.do(auth("digest", "bob:secret"))
		a.do(getACL("/stage/n"))
		b.do(auth("digest", "ann:secret"))
		b.do(getACL("/stage/n"))
		b.do(createACL("/stage/m", keeper, acl("world", "anyone", wire.PermRead)))
		b.do(getACL("/stage/m"))
	}},
	{"an ACL that is none is refused", func(s *stage) {
		a := s.session("a")
		a.do(create("/stage/n", wire.Persistent))
		for _, wrong := range []wire.ACL{
			acl("world", "me", wire.PermAll), acl("world", "", wire.PermAll), acl("", "", wire.PermAll), acl("bogus", "x", wire.PermAll),
			acl("digest", "", wire.PermAll), acl("digest", "ann", wire.PermAll), acl("digest", "a:b:c", wire.PermAll), acl("digest", "a:b", wire.PermAll),
			acl("ip", "", wire.PermAll), acl("ip", "1.2.3", wire.PermAll), acl("ip", "1.2.3.4/33", wire.PermAll), acl("ip", "1.2.3.4/-1", wire.PermAll),
			acl("ip", "1.2.3.256", wire.PermAll), acl("ip", "::1", wire.PermAll), acl("ip", "1.2.3.4", wire.PermAll), acl("ip", "1.2.3.4/8", wire.PermAll),
			acl("ip", "1.2.3.4/", wire.PermAll), acl("ip", "1.2.3.4/x", wire.PermAll), acl("ip", "localhost", wire.PermAll), acl("ip", "1.2.3.4/8/9", wire.PermAll),
			acl("super", "x", wire.PermAll), acl("x509", "cn=x", wire.PermAll), acl("sasl", "x", wire.PermAll), acl("auth", "x", wire.PermAll),
			acl("world", "anyone", 0), acl("world", "anyone", 32), acl("world", "anyone", -1), acl("WORLD", "anyone", 31),
		} {
			a.do(createACL("/stage/m", wrong))
			a.do(getACL("/stage/m"))
			a.do(deletion("/stage/m", -1))
			a.do(setACL("/stage/n", 99, wrong))
		}
		a.do(createACL("/stage/m"))
		a.do(createACL("/stage/m", acl("world", "anyone", 31), acl("bogus", "x", 31)))
		a.do(createACL("/stage/m", acl("world", "anyone", 31), acl("world", "anyone", 31), acl("world", "anyone", 1)))
		a.do(getACL("/stage/m"))
		a.do(setACL("/stage/m", -1, keeper, keeper, acl("world", "anyone", 1)))
		a.do(getACL("/stage/m"))
	}},
	{"an address may be allowed", func(s *stage) {
		a := s.session("a")
		for i, id := range []string{"0.0.0.0/0", "255.255.255.255", "0.0.0.0/1", "255.255.255.255/1"} {
			path := fmt.Sprint("/stage/n", i)
			a.do(createACL(path, acl("ip", id, wire.PermAll)))
			if i < 2 {
				a.do(get(path))
			}
		}
	}},
	{"a scheme that is unknown ends the connection", func(s *stage) {
		for i, credential := range []wire.Auth{
			auth("bogus", "x"), auth("", ""), auth("world", "anyone"), auth("auth", ""), auth("super", "x"), auth("x509", "x"), auth("sasl", "x"),
		} {
			p := s.session(fmt.Sprint("p", i))
			p.do(create(fmt.Sprint("/stage/e", i), wire.Ephemeral))
			p.do(credential)
			p.do(exists(root))
		}
		a := s.session("a")
		a.do(children(root))
	}},
	{"odd credentials are taken", func(s *stage) {
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
	{"credentials end with the connection", func(s *stage) {
		a := s.session("a")
		a.do(auth("digest", "keeper:keeper"))
		a.do(createACL("/stage/n", keeper))
		a.do(get("/stage/n"))
		b := s.stranger("b")
		b.attach(a)
		b.do(get("/stage/n"))
		b.do(wire.WhoAmI{})
	}},
}

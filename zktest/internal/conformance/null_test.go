// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// noPath writes a null in the place of a path.
func noPath(w *wire.Writer) { w.Int32(-1) }

// withoutPath are requests that have no path, and then their other fields.
var withoutPath = func() (raws []rawclient.Raw) {
	acl := func(w *wire.Writer) {
		w.Int32(1)
		w.Int32(wire.PermAll)
		w.String("world")
		w.String("anyone")
	}
	add := func(op wire.Op, rest func(w *wire.Writer)) {
		raws = append(raws, rawclient.Raw{Op: op, Put: func(w *wire.Writer) { noPath(w); rest(w) }})
	}
	for _, op := range []wire.Op{wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL} {
		for _, flags := range []int32{wire.Persistent, wire.PersistentSequential, wire.Container} {
			add(op, func(w *wire.Writer) {
				w.Bytes([]byte("x"))
				acl(w)
				w.Int32(flags)
				if op == wire.OpCreateTTL {
					w.Int64(1000)
				}
			})
		}
	}
	for _, op := range []wire.Op{wire.OpDelete, wire.OpCheckWatches, wire.OpRemoveWatches} {
		for version := range int32(3) {
			add(op, func(w *wire.Writer) { w.Int32(version - 1) })
		}
	}
	add(wire.OpSetData, func(w *wire.Writer) { w.Bytes([]byte("x")); w.Int32(-1) })
	add(wire.OpSetACL, func(w *wire.Writer) { acl(w); w.Int32(-1) })
	for _, op := range []wire.Op{wire.OpExists, wire.OpGetData, wire.OpGetChildren, wire.OpGetChildren2} {
		for _, watch := range []bool{false, true} {
			add(op, func(w *wire.Writer) { w.Bool(watch) })
		}
	}
	for _, op := range []wire.Op{wire.OpGetACL, wire.OpSync, wire.OpGetEphemerals, wire.OpGetAllChildrenNumber} {
		add(op, func(*wire.Writer) {})
	}
	return raws
}()

// transactionOf returns a transaction, or several reads, of these requests.
func transactionOf(of wire.Op, raws ...rawclient.Raw) rawclient.Raw {
	return rawclient.Raw{Op: of, Put: func(w *wire.Writer) {
		for _, raw := range raws {
			w.Int32(int32(raw.Op))
			w.Bool(false)
			w.Int32(-1)
			raw.Put(w)
		}
		w.Int32(-1)
		w.Bool(true)
		w.Int32(-1)
	}}
}

var nulls = []scenario{
	{"a null in place of a path", func(s *run) {
		for i, raw := range withoutPath {
			p := s.session(fmt.Sprint("p", i))
			p.do(raw)
			p.do(exists(root))
		}
	}},
	{"a null in place of a path, in several reads at once", func(s *run) {
		for i, raw := range withoutPath {
			if raw.Op == wire.OpGetData || raw.Op == wire.OpGetChildren {
				p := s.session(fmt.Sprint("p", i))
				p.do(transactionOf(wire.OpMultiRead, raw))
				p.do(exists(root))
			}
		}
	}},
	{"null lists of watches, and null paths in them", func(s *run) {
		for i, put := range []func(w *wire.Writer){
			func(w *wire.Writer) { w.Int64(0); w.Int32(-1); w.Int32(0); w.Int32(0) },
			func(w *wire.Writer) { w.Int64(0); w.Int32(0); w.Int32(-1); w.Int32(0) },
			func(w *wire.Writer) { w.Int64(0); w.Int32(0); w.Int32(0); w.Int32(-1) },
			func(w *wire.Writer) { w.Int64(0); w.Int32(1); w.Int32(-1); w.Int32(0); w.Int32(0) },
			func(w *wire.Writer) { w.Int64(0); w.Int32(0); w.Int32(1); w.Int32(-1); w.Int32(0) },
			func(w *wire.Writer) { w.Int64(0); w.Int32(0); w.Int32(0); w.Int32(1); w.Int32(-1) },
		} {
			p := s.session(fmt.Sprint("p", i))
			p.do(rawclient.Raw{Op: wire.OpSetWatches, Put: put})
			p.do(exists(root))
			q := s.session(fmt.Sprint("q", i))
			q.do(rawclient.Raw{Op: wire.OpSetWatches2, Put: func(w *wire.Writer) { put(w); w.Int32(0); w.Int32(0) }})
			q.do(exists(root))
		}
	}},
	{"null lists of persistent watches", func(s *run) {
		for i, put := range []func(w *wire.Writer){
			func(w *wire.Writer) { w.Int32(-1); w.Int32(0) },
			func(w *wire.Writer) { w.Int32(0); w.Int32(-1) },
		} {
			p := s.session(fmt.Sprint("r", i))
			p.do(rawclient.Raw{Op: wire.OpSetWatches2, Put: func(w *wire.Writer) { w.Int64(0); w.Int32(0); w.Int32(0); w.Int32(0); put(w) }})
			p.do(exists(root))
		}
	}},
	{"null lists of permissions, schemes and identities", func(s *run) {
		for i, put := range []func(w *wire.Writer){
			func(w *wire.Writer) { w.Int32(-1) },
			func(w *wire.Writer) { w.Int32(1); w.Int32(wire.PermAll); w.Int32(-1); w.String("anyone") },
			func(w *wire.Writer) { w.Int32(1); w.Int32(wire.PermAll); w.String("world"); w.Int32(-1) },
			func(w *wire.Writer) { w.Int32(1); w.Int32(wire.PermAll); w.String("digest"); w.Int32(-1) },
			func(w *wire.Writer) { w.Int32(1); w.Int32(wire.PermAll); w.String("ip"); w.Int32(-1) },
			func(w *wire.Writer) { w.Int32(1); w.Int32(wire.PermAll); w.String("auth"); w.Int32(-1) },
			func(w *wire.Writer) { w.Int32(1); w.Int32(wire.PermAll); w.String("sasl"); w.Int32(-1) },
		} {
			p := s.session(fmt.Sprint("a", i))
			p.do(rawclient.Raw{Op: wire.OpCreate, Put: func(w *wire.Writer) { w.String("/probe/n"); w.Bytes(nil); put(w); w.Int32(0) }})
			p.do(exists(root))
			q := s.session(fmt.Sprint("b", i))
			q.do(rawclient.Raw{Op: wire.OpSetACL, Put: func(w *wire.Writer) { w.String(root); put(w); w.Int32(-1) }})
			q.do(exists(root))
		}
	}},
	{"null credentials", func(s *run) {
		for i, put := range []func(w *wire.Writer){
			func(w *wire.Writer) { w.Int32(0); w.Int32(-1); w.Bytes([]byte("a:b")) },
			func(w *wire.Writer) { w.Int32(0); w.String("digest"); w.Int32(-1) },
			func(w *wire.Writer) { w.Int32(0); w.String("ip"); w.Int32(-1) },
		} {
			p := s.session(fmt.Sprint("c", i))
			p.do(rawclient.Raw{Op: wire.OpAuth, Put: put})
			p.do(exists(root))
		}
	}},
	{"paths with lone surrogates, characters above U+FFFF and invalid bytes", func(s *run) {
		for i, name := range []string{
			"\xed\xa0\x80", "a\xed\xa0\x80", "\xed\xb0\x80", "\xed\xa0\x80\xed\xb0\x80", "\xed\xbf\xbf", "\U00010000", "a\U00010000b", "\U0010ffff", "\U0001f600",
			"\xff", "a\xffb", "\xf8\x88\x80\x80\x80", "\xc0\x80", "\xc0\xaf", "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\xe2\x82x", "\xf0\x9f\x98", "\xf0\x9f", "\xc3", "\ufffd", "\u00e9",
		} {
			path := "/probe/" + name
			p := s.session(fmt.Sprint("p", i))
			for _, req := range []any{
				create(path, wire.Persistent), create2(path, wire.PersistentSequential), exists(path), existsW(path), get(path), children(path), getACL(path), set(path, -1), setACL(path, -1, wire.World...),
				multi(check(path, -1)), multi(create(path, wire.Persistent)), multiRead(get(path)),
				wire.AddWatch{Path: path},
				wire.RemoveWatches{Path: path, Type: 3},
				wire.Sync{Path: path},
				wire.GetEphemerals{Prefix: path},
				wire.GetAllChildrenNumber{Path: path},
				deletion(path, -1), names(root),
			} {
				if p.ended {
					p = s.session(fmt.Sprint(p.name, "'"))
				}
				p.do(req)
			}
			p.remove(root)
			p.do(create(root, wire.Persistent))
		}
	}},
}

// nullInTransaction sends transactions with an operation that has no path.
func nullInTransaction(s *run) {
	for i, raw := range withoutPath {
		switch raw.Op {
		case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete, wire.OpSetData:
			p := s.session(fmt.Sprint("p", i))
			p.do(transactionOf(wire.OpMulti, raw))
			p.do(exists(root))
		}
	}
	p := s.session("check")
	p.do(transactionOf(wire.OpMulti, rawclient.Raw{Op: wire.OpCheck, Put: func(w *wire.Writer) { noPath(w); w.Int32(-1) }}))
}

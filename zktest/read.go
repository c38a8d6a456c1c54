// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// read carries out a request that changes nothing except watches.
func (s *Server) read(c *conn, r *request) (wire.Code, func(*wire.Writer)) {
	switch body := r.body.(type) {
	case wire.Exists:
		stat, code := s.tree.Exists(body.Path)
		if body.Watch {
			s.data.add(c, body.Path, once)
		}
		return code, when(code, stat.Put)
	case wire.GetData:
		data, stat, code := s.tree.Get(body.Path, r.identities)
		if body.Watch && code == wire.OK {
			s.data.add(c, body.Path, once)
		}
		return code, when(code, func(w *wire.Writer) { w.Bytes(data); stat.Put(w) })
	case wire.GetChildren:
		names, stat, code := s.tree.Children(body.Path, r.identities)
		if body.Watch && code == wire.OK {
			s.children.add(c, body.Path, once)
		}
		return code, when(code, func(w *wire.Writer) {
			w.Strings(names)
			if body.WithStat {
				stat.Put(w)
			}
		})
	case wire.GetACL:
		acl, stat, code := s.tree.ACL(body.Path, r.identities)
		return code, when(code, func(w *wire.Writer) { wire.PutACL(w, acl); stat.Put(w) })
	case wire.MultiRead:
		return wire.OK, func(w *wire.Writer) { s.putMultiRead(w, r.identities, body) }
	case wire.GetEphemerals:
		names := s.tree.Ephemerals(c.session.id, body.Prefix)
		return wire.OK, func(w *wire.Writer) { w.Strings(names) }
	case wire.GetAllChildrenNumber:
		n, code := s.tree.CountDescendants(body.Path, r.identities)
		return code, when(code, func(w *wire.Writer) { w.Int32(n) })
	case wire.WhoAmI:
		// ZooKeeper omits world:anyone, which every client has.
		ids := slices.DeleteFunc(slices.Clone(r.identities), func(id tree.Identity) bool { return id.Scheme == "world" })
		return wire.OK, func(w *wire.Writer) {
			w.Int32(int32(len(ids))) //nolint:gosec // a handful
			for _, id := range ids {
				w.String(id.Scheme)
				w.String(userOf(id))
			}
		}
	case wire.SetWatches:
		s.setWatches(c, body)
	case wire.AddWatch:
		switch body.Mode {
		case 0:
			s.data.add(c, body.Path, persistent)
			s.children.add(c, body.Path, persistent)
		case 1:
			s.addRecursive(c, body.Path)
		default:
			return wire.MarshallingError, nil
		}
		return wire.OK, func(w *wire.Writer) { w.Int32(int32(wire.OK)) }
	case wire.CheckWatches:
		return s.findWatch(c, body.Path, body.Type, false), nil
	case wire.RemoveWatches:
		return s.findWatch(c, body.Path, body.Type, true), nil
	case refusal:
		return body.code, nil
	}
	return wire.OK, nil // a ping
}

// userOf returns the part of an identity that whoAmI shows: of a digest, its user.
func userOf(id tree.Identity) string {
	if id.Scheme != "digest" {
		return id.ID
	}
	user, _, _ := strings.Cut(id.ID, ":")
	return user
}

// when returns body if code is OK, otherwise nil.
func when(code wire.Code, body func(*wire.Writer)) func(*wire.Writer) {
	if code != wire.OK {
		return nil
	}
	return body
}

func (s *Server) putMultiRead(w *wire.Writer, ids []tree.Identity, req wire.MultiRead) {
	for _, op := range req.Ops {
		if w.Len() > maxOutbound {
			return // a small request can ask for any amount, and reply will refuse to send it
		}
		code, kind, put := wire.BadArguments, wire.OpError, func(*wire.Writer) {}
		switch op := op.(type) {
		case wire.GetData:
			data, stat, got := s.tree.Get(op.Path, ids)
			code, kind, put = got, wire.OpGetData, func(w *wire.Writer) { w.Bytes(data); stat.Put(w) }
		case wire.GetChildren:
			names, _, got := s.tree.Children(op.Path, ids)
			code, kind, put = got, wire.OpGetChildren, func(w *wire.Writer) { w.Strings(names) }
		}
		if code != wire.OK {
			wire.PutMultiHeader(w, wire.OpError, false, code)
			w.Int32(int32(code))
			continue
		}
		wire.PutMultiHeader(w, kind, false, wire.OK)
		put(w)
	}
	wire.PutMultiHeader(w, wire.OpError, true, -1)
}

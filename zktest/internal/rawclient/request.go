// SPDX-License-Identifier: Apache-2.0

package rawclient

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// Raw is a request of any operation with any fields, including those that no client sends. Put writes the fields; nil
// writes none.
type Raw struct {
	Op  wire.Op
	Put func(w *wire.Writer)
}

// Request returns a request as a frame. The request is one of wire's, or a Raw; Request panics on any other type.
func Request(xid int32, req any) []byte {
	w := wire.NewWriter()
	w.Int32(xid)
	w.Int32(int32(OpOf(req)))
	put(w, req)
	return w.Frame()
}

// OpOf returns the operation in the request's header. It panics on a type that is no request.
func OpOf(req any) wire.Op {
	switch req := req.(type) {
	case wire.Create:
		return req.Op
	case wire.GetChildren:
		if req.WithStat {
			return wire.OpGetChildren2
		}
		return wire.OpGetChildren
	case wire.SetWatches:
		if req.Persistent != nil || req.PersistentRecursive != nil {
			return wire.OpSetWatches2
		}
		return wire.OpSetWatches
	case Raw:
		return req.Op
	}
	switch req.(type) {
	case wire.Delete:
		return wire.OpDelete
	case wire.SetData:
		return wire.OpSetData
	case wire.SetACL:
		return wire.OpSetACL
	case wire.Check:
		return wire.OpCheck
	case wire.Multi:
		return wire.OpMulti
	case wire.MultiRead:
		return wire.OpMultiRead
	case wire.Exists:
		return wire.OpExists
	case wire.GetData:
		return wire.OpGetData
	case wire.GetACL:
		return wire.OpGetACL
	case wire.Sync:
		return wire.OpSync
	case wire.Ping:
		return wire.OpPing
	case wire.SASL:
		return wire.OpSASL
	case wire.Auth:
		return wire.OpAuth
	case wire.AddWatch:
		return wire.OpAddWatch
	case wire.CheckWatches:
		return wire.OpCheckWatches
	case wire.RemoveWatches:
		return wire.OpRemoveWatches
	case wire.GetEphemerals:
		return wire.OpGetEphemerals
	case wire.GetAllChildrenNumber:
		return wire.OpGetAllChildrenNumber
	case wire.WhoAmI:
		return wire.OpWhoAmI
	case wire.CloseSession:
		return wire.OpCloseSession
	}
	panic(fmt.Sprintf("rawclient: %T is no request", req))
}

// put writes the fields that follow the header.
func put(w *wire.Writer, req any) {
	switch req := req.(type) {
	case wire.Create:
		w.String(req.Path)
		w.Bytes(req.Data)
		wire.PutACL(w, req.ACL)
		w.Int32(req.Flags)
		if req.Op == wire.OpCreateTTL {
			w.Int64(req.TTL)
		}
	case wire.Delete:
		putVersioned(w, req.Path, req.Version)
	case wire.Check:
		putVersioned(w, req.Path, req.Version)
	case wire.SetData:
		w.String(req.Path)
		w.Bytes(req.Data)
		w.Int32(req.Version)
	case wire.SetACL:
		w.String(req.Path)
		wire.PutACL(w, req.ACL)
		w.Int32(req.Version)
	case wire.Multi:
		putOps(w, req.Ops)
	case wire.MultiRead:
		putOps(w, req.Ops)
	case wire.Exists:
		putWatched(w, req.Path, req.Watch)
	case wire.GetData:
		putWatched(w, req.Path, req.Watch)
	case wire.GetChildren:
		putWatched(w, req.Path, req.Watch)
	case wire.GetACL:
		w.String(req.Path)
	case wire.Sync:
		w.String(req.Path)
	case wire.GetEphemerals:
		w.String(req.Prefix)
	case wire.GetAllChildrenNumber:
		w.String(req.Path)
	case wire.AddWatch:
		putVersioned(w, req.Path, req.Mode)
	case wire.CheckWatches:
		putVersioned(w, req.Path, req.Type)
	case wire.RemoveWatches:
		putVersioned(w, req.Path, req.Type)
	case wire.Auth:
		w.Int32(0)
		w.String(req.Scheme)
		w.Bytes(req.Data)
	case wire.SASL:
		w.Bytes(req.Token)
	case wire.SetWatches:
		w.Int64(req.RelativeZxid)
		w.Strings(req.Data)
		w.Strings(req.Exist)
		w.Strings(req.Child)
		if OpOf(req) == wire.OpSetWatches2 {
			w.Strings(req.Persistent)
			w.Strings(req.PersistentRecursive)
		}
	case Raw:
		if req.Put != nil {
			req.Put(w)
		}
	}
}

func putVersioned(w *wire.Writer, path string, n int32) {
	w.String(path)
	w.Int32(n)
}

func putWatched(w *wire.Writer, path string, watch bool) {
	w.String(path)
	w.Bool(watch)
}

// putOps writes the operations of a transaction, each after its header, and the header that ends the transaction.
func putOps(w *wire.Writer, ops []any) {
	for _, op := range ops {
		wire.PutMultiHeader(w, OpOf(op), false, -1)
		put(w, op)
	}
	wire.PutMultiHeader(w, wire.OpError, true, -1)
}

// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// The scenarios' requests: with an open ACL, data "x" and any version, unless a scenario needs others.

func create(path string, flags int32) wire.Create {
	return wire.Create{Op: wire.OpCreate, Path: path, Data: []byte("x"), ACL: wire.World, Flags: flags}
}

func create2(path string, flags int32) wire.Create {
	c := create(path, flags)
	c.Op = wire.OpCreate2
	return c
}

func createContainer(path string) wire.Create {
	c := create(path, wire.Container)
	c.Op = wire.OpCreateContainer
	return c
}

func containerWithFlags(path string, flags int32) wire.Create {
	c := createContainer(path)
	c.Flags = flags
	return c
}

func createTTL(path string, flags int32, ttl int64) wire.Create {
	c := create(path, flags)
	c.Op, c.TTL = wire.OpCreateTTL, ttl
	return c
}

func createACL(path string, acl ...wire.ACL) wire.Create {
	c := create(path, wire.Persistent)
	c.ACL = acl
	return c
}

func set(path string, version int32) wire.SetData {
	return wire.SetData{Path: path, Data: []byte("xy"), Version: version}
}

func setACL(path string, version int32, acl ...wire.ACL) wire.SetACL {
	return wire.SetACL{Path: path, ACL: acl, Version: version}
}

func deletion(path string, version int32) wire.Delete {
	return wire.Delete{Path: path, Version: version}
}

func check(path string, version int32) wire.Check { return wire.Check{Path: path, Version: version} }
func multi(ops ...any) wire.Multi                 { return wire.Multi{Ops: ops} }
func multiRead(ops ...any) wire.MultiRead         { return wire.MultiRead{Ops: ops} }
func exists(path string) wire.Exists              { return wire.Exists{Path: path} }
func existsW(path string) wire.Exists             { return wire.Exists{Path: path, Watch: true} }
func get(path string) wire.GetData                { return wire.GetData{Path: path} }
func getW(path string) wire.GetData               { return wire.GetData{Path: path, Watch: true} }
func getACL(path string) wire.GetACL              { return wire.GetACL{Path: path} }
func names(path string) wire.GetChildren          { return wire.GetChildren{Path: path} }
func namesW(path string) wire.GetChildren         { return wire.GetChildren{Path: path, Watch: true} }

func children(path string) wire.GetChildren { return wire.GetChildren{Path: path, WithStat: true} }

func childrenW(path string) wire.GetChildren {
	return wire.GetChildren{Path: path, Watch: true, WithStat: true}
}

func auth(scheme, credential string) wire.Auth {
	return wire.Auth{Scheme: scheme, Data: []byte(credential)}
}

func acl(scheme, id string, perms int32) wire.ACL {
	return wire.ACL{Perms: perms, Scheme: scheme, ID: id}
}

// describe returns the request's line in the transcript.
func describe(req any) string {
	op := rawclient.OpOf(req)
	switch req := req.(type) {
	case wire.Create:
		extra := ""
		if req.Op == wire.OpCreateTTL {
			extra = fmt.Sprintf(" ttl=%d", req.TTL)
		}
		return fmt.Sprintf("%v %s data=%s acl=%s flags=%d%s", op, pathText(req.Path), bytesText(req.Data), aclText(req.ACL), req.Flags, extra)
	case wire.SetData:
		return fmt.Sprintf("%v %s data=%s version=%d", op, pathText(req.Path), bytesText(req.Data), req.Version)
	case wire.SetACL:
		return fmt.Sprintf("%v %s acl=%s version=%d", op, pathText(req.Path), aclText(req.ACL), req.Version)
	case wire.Multi:
		return fmt.Sprint(op) + opsText(req.Ops)
	case wire.MultiRead:
		return fmt.Sprint(op) + opsText(req.Ops)
	case wire.Auth:
		return fmt.Sprintf("%v %q %s", op, req.Scheme, bytesText(req.Data))
	case wire.SASL: // the texts of tokens are random, their lengths are not
		if req.Token == nil {
			return fmt.Sprintf("%v null", op)
		}
		return fmt.Sprintf("%v token of %d bytes", op, len(req.Token))
	case wire.SetWatches: // the zxid differs from server to server: scenarios note which one it is
		return fmt.Sprintf("%v data=%v exist=%v child=%v persistent=%v recursive=%v",
			op, req.Data, req.Exist, req.Child, req.Persistent, req.PersistentRecursive)
	case rawclient.Raw:
		return fmt.Sprintf("%v, raw", op)
	}
	return strings.TrimSpace(fmt.Sprintf("%v %+v", op, req))
}

func opsText(ops []any) string {
	var b strings.Builder
	for i, op := range ops {
		fmt.Fprintf(&b, "\n    %d: %s", i, describe(op))
	}
	return b.String()
}

// pathText returns a path verbatim if it is readable, otherwise quoted.
func pathText(path string) string {
	quoted := fmt.Sprintf("%q", path)
	if len(path) > 100 {
		return fmt.Sprintf("%.20s… of %d bytes", path, len(path))
	}
	if path == "" || quoted != `"`+path+`"` {
		return quoted
	}
	return path
}

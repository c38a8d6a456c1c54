// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"maps"
	"slices"
)

// An Op is the number of an operation.
type Op int32

// The operations of the protocol, as of ZooKeeper 3.8 (ZooDefs.OpCode).
const (
	OpNotification         Op = 0
	OpCreate               Op = 1
	OpDelete               Op = 2
	OpExists               Op = 3
	OpGetData              Op = 4
	OpSetData              Op = 5
	OpGetACL               Op = 6
	OpSetACL               Op = 7
	OpGetChildren          Op = 8
	OpSync                 Op = 9
	OpPing                 Op = 11
	OpGetChildren2         Op = 12
	OpCheck                Op = 13
	OpMulti                Op = 14
	OpCreate2              Op = 15
	OpReconfig             Op = 16
	OpCheckWatches         Op = 17
	OpRemoveWatches        Op = 18
	OpCreateContainer      Op = 19
	OpDeleteContainer      Op = 20
	OpCreateTTL            Op = 21
	OpMultiRead            Op = 22
	OpAuth                 Op = 100
	OpSetWatches           Op = 101
	OpSASL                 Op = 102
	OpGetEphemerals        Op = 103
	OpGetAllChildrenNumber Op = 104
	OpSetWatches2          Op = 105
	OpAddWatch             Op = 106
	OpWhoAmI               Op = 107
	OpCreateSession        Op = -10
	OpCloseSession         Op = -11
	OpError                Op = -1
)

var opNames = map[Op]string{
	OpNotification: "notification", OpCreate: "create", OpDelete: "delete", OpExists: "exists", OpGetData: "getData",
	OpSetData: "setData", OpGetACL: "getACL", OpSetACL: "setACL", OpGetChildren: "getChildren", OpSync: "sync",
	OpPing: "ping", OpGetChildren2: "getChildren2", OpCheck: "check", OpMulti: "multi", OpCreate2: "create2",
	OpReconfig: "reconfig", OpCheckWatches: "checkWatches", OpRemoveWatches: "removeWatches",
	OpCreateContainer: "createContainer", OpDeleteContainer: "deleteContainer", OpCreateTTL: "createTTL",
	OpMultiRead: "multiRead", OpAuth: "auth", OpSetWatches: "setWatches", OpSASL: "sasl",
	OpGetEphemerals: "getEphemerals", OpGetAllChildrenNumber: "getAllChildrenNumber", OpSetWatches2: "setWatches2",
	OpAddWatch: "addWatch", OpWhoAmI: "whoAmI", OpCreateSession: "createSession", OpCloseSession: "closeSession",
	OpError: "error",
}

func (o Op) String() string {
	if name, ok := opNames[o]; ok {
		return name
	}
	return fmt.Sprintf("operation %d", int32(o))
}

// OpNames returns the names of the operations, in no particular order.
func OpNames() []string { return slices.Collect(maps.Values(opNames)) }

// Transaction ids with a fixed meaning.
const (
	XidWatchEvent = -1
	XidPing       = -2
	XidAuth       = -4
	XidSetWatches = -8
)

// A Code is the result code of a request. OK means no error.
type Code int32

// The codes of KeeperException.Code that this server answers.
const (
	OK                           Code = 0
	SystemError                  Code = -1
	RuntimeInconsistency         Code = -2
	MarshallingError             Code = -5
	Unimplemented                Code = -6
	OperationTimeout             Code = -7
	BadArguments                 Code = -8
	NoNode                       Code = -101
	NoAuth                       Code = -102
	BadVersion                   Code = -103
	NoChildrenForEphemerals      Code = -108
	NodeExists                   Code = -110
	NotEmpty                     Code = -111
	SessionExpired               Code = -112
	InvalidCallback              Code = -113
	InvalidACL                   Code = -114
	AuthFailed                   Code = -115
	SessionMoved                 Code = -118
	NotReadOnly                  Code = -119
	EphemeralOnLocalSession      Code = -120
	NoWatcher                    Code = -121
	ReconfigDisabled             Code = -123
	QuotaExceeded                Code = -125
	SessionClosedRequireSASLAuth Code = -124
	ThrottledOp                  Code = -127
)

var codeNames = map[Code]string{
	OK: "OK", SystemError: "SystemError", RuntimeInconsistency: "RuntimeInconsistency",
	MarshallingError: "MarshallingError", Unimplemented: "Unimplemented", OperationTimeout: "OperationTimeout",
	BadArguments: "BadArguments", NoNode: "NoNode", NoAuth: "NoAuth", BadVersion: "BadVersion",
	NoChildrenForEphemerals: "NoChildrenForEphemerals", NodeExists: "NodeExists", NotEmpty: "NotEmpty",
	SessionExpired: "SessionExpired", InvalidCallback: "InvalidCallback", InvalidACL: "InvalidACL",
	AuthFailed: "AuthFailed", SessionMoved: "SessionMoved", NotReadOnly: "NotReadOnly",
	EphemeralOnLocalSession: "EphemeralOnLocalSession", NoWatcher: "NoWatcher", ReconfigDisabled: "ReconfigDisabled",
	QuotaExceeded: "QuotaExceeded", SessionClosedRequireSASLAuth: "SessionClosedRequireSASLAuth", ThrottledOp: "ThrottledOp",
}

// Error returns ZooKeeper's name for the code.
func (c Code) Error() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return fmt.Sprintf("code %d", int32(c))
}

// Flags of a create: the numbers of ZooKeeper's CreateMode.
const (
	Persistent              int32 = 0
	Ephemeral               int32 = 1
	PersistentSequential    int32 = 2
	EphemeralSequential     int32 = 3
	Container               int32 = 4
	PersistentWithTTL       int32 = 5
	PersistentSequentialTTL int32 = 6
)

// Permissions in an ACL.
const (
	PermRead   int32 = 1
	PermWrite  int32 = 2
	PermCreate int32 = 4
	PermDelete int32 = 8
	PermAdmin  int32 = 16
	PermAll    int32 = 31
)

// An EventType is the type of a watch event.
type EventType int32

// The types of events.
const (
	EventNone                EventType = -1
	EventNodeCreated         EventType = 1
	EventNodeDeleted         EventType = 2
	EventNodeDataChanged     EventType = 3
	EventNodeChildrenChanged EventType = 4
)

// StateSyncConnected is the connection state in a watch event.
const StateSyncConnected int32 = 3

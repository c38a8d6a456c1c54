// SPDX-License-Identifier: Apache-2.0

package wire

import "encoding/binary"

// A watch is one entry in the client's table of watches.
type watch struct {
	kind watchKind
	path string
}

// A watchKind is a list of the packet that sets watches again. Its values are in the packet's order.
type watchKind int

const (
	watchData watchKind = iota
	watchExist
	watchChild
	watchKinds // number of kinds
)

// watches mirrors the client's table of watches, across the connections of one session.
//
// The client sets its watches again in packets of 128 KiB, each after the answer to the one before. A connection can end
// between two of them, and a server can refuse one: the client then goes on as if all were set. A packet that was queued
// when its connection ended goes out on the next one, between the packets of that. So neither the number of packets nor
// their order shows when a server has all watches. Only their content does.
//
// The reader of the newest connection changes it, and no other goroutine reads it.
type watches struct {
	confirmed  map[watch]int // number of the connection on which a server last answered that it has the watch
	connection int           // number of this connection
	missing    int           // watches of earlier connections that no answer on this one has confirmed
	setting    watch         // set by the frame that the client decodes now; no path: none
}

// next returns the watches of the next connection.
func (ws *watches) next() watches {
	return watches{confirmed: ws.confirmed, connection: ws.connection + 1, missing: len(ws.confirmed)}
}

// complete reports whether this connection's server has confirmed all watches of earlier connections that have not fired.
func (ws *watches) complete() bool { return ws.missing == 0 }

// decoded records that the client has decoded the frame before, whose watch it now has.
func (ws *watches) decoded() {
	if ws.setting.path == "" {
		return
	}
	// A watch that it had already is still missing: whoever set it has not seen what the answer shows.
	if _, had := ws.confirmed[ws.setting]; !had {
		ws.confirmed[ws.setting] = ws.connection
	}
	ws.setting = watch{}
}

// confirm records that the server has set the watches of that packet again.
func (ws *watches) confirm(packet []byte) {
	for _, w := range watchesOf(packet) {
		if last, known := ws.confirmed[w]; known && last < ws.connection {
			ws.confirmed[w] = ws.connection
			ws.missing--
		}
	}
}

// fired records that an event of that type has fired the watches of path.
func (ws *watches) fired(event int32, path string) {
	var kinds []watchKind
	switch event {
	case 1: // created
		kinds = []watchKind{watchExist}
	case 2: // deleted
		kinds = []watchKind{watchData, watchExist, watchChild}
	case 3: // data changed
		kinds = []watchKind{watchData, watchExist}
	case 4: // children changed
		kinds = []watchKind{watchChild}
	}
	for _, kind := range kinds {
		w := watch{kind, path}
		if last, known := ws.confirmed[w]; known && last < ws.connection {
			ws.missing--
		}
		delete(ws.confirmed, w)
	}
}

// requested returns the kind of watch that an answer sets to a request of op: the watch of a node that exists, and the watch of a
// node that does not. ok is false for an operation that sets no watch.
func requested(op int32) (existing, missing watchKind, ok bool) {
	switch op {
	case opGetData:
		return watchData, watchKinds, true
	case opExists:
		return watchData, watchExist, true
	case opGetChildren:
		return watchChild, watchKinds, true
	}
	return 0, 0, false
}

// answeredWith returns the watch that the client sets when it decodes an answer with that code to the packet. Its path is
// empty if there is none.
func (p packet) answeredWith(code int32) watch {
	existing, missing, _ := requested(p.op)
	switch {
	case p.watched == "":
	case code == 0:
		return watch{existing, p.watched}
	case code == codeNoNode && missing != watchKinds:
		return watch{missing, p.watched}
	}
	return watch{}
}

// watchedPath returns the path of the node that a request of op watches, or "" if it watches none. The request begins with
// its length.
func watchedPath(request []byte, op int32) string {
	if _, _, ok := requested(op); !ok {
		return ""
	}
	path, rest, ok := cutString(request[min(len(request), bodyOfRequest):])
	if !ok || len(rest) != 1 || rest[0] == 0 {
		return ""
	}
	return path
}

// watchesOf returns the watches of a packet that sets watches again. The packet begins with its length.
func watchesOf(packet []byte) (all []watch) {
	rest := packet[min(len(packet), zxidOfSetWatches+8):]
	for kind := range watchKinds {
		if len(rest) < 4 {
			return all
		}
		n := int32(binary.BigEndian.Uint32(rest))
		rest = rest[4:]
		for range n {
			path, after, ok := cutString(rest)
			if !ok {
				return all
			}
			all = append(all, watch{kind, path})
			rest = after
		}
	}
	return all
}

// cutString returns the string that b begins with, and what follows it.
func cutString(b []byte) (s string, rest []byte, ok bool) {
	if len(b) < 4 {
		return "", nil, false
	}
	n := int(int32(binary.BigEndian.Uint32(b)))
	if n < 0 || n > len(b)-4 {
		return "", nil, false
	}
	return string(b[4 : 4+n]), b[4+n:], true
}

// SPDX-License-Identifier: Apache-2.0

package objectfence

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// An envelope is what the store keeps as the object: a few lines of text, an empty one, and the body.
//
// The token is in there and not in the object's metadata because of what a condition compares. An ETag of S3 is a sum of
// the object's bytes, and of nothing else: were the token beside them, a newer holder could write the bytes that are
// there already and leave the ETag as it was, and the older one's If-Match would hold. The name of the write makes sure
// that no two writes make the same bytes, whatever their body and token.
type envelope struct {
	newest  fencing.Token // zero after a reset to it
	history string        // that the tokens are of; none if it is empty, and then there is no line for it
	write   string        // names the write that made it
	deleted bool          // there is no body, and the token stays
	body    []byte
}

const (
	prologue    = "lockkeeper object 1\n"
	historyLine = "history "
	deletion    = "deleted\n"
)

func (e envelope) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%stoken %d\n", prologue, int64(e.newest))
	if e.history != "" {
		fmt.Fprintf(&b, "%s%s\n", historyLine, e.history)
	}
	fmt.Fprintf(&b, "write %s\n", e.write)
	if e.deleted {
		b.WriteString(deletion)
	}
	b.WriteByte('\n')
	b.Write(e.body)
	return b.Bytes()
}

// open returns the envelope of an object, if it is one.
func open(object []byte) (envelope, bool) {
	head, body, ok := bytes.Cut(object, []byte("\n\n"))
	if !ok {
		return envelope{}, false
	}
	lines := strings.Split(string(head), "\n")
	if len(lines) < 3 {
		return envelope{}, false
	}
	var e envelope
	if digits := strings.TrimPrefix(lines[1], "token "); digits != "0" {
		var err error
		if e.newest, err = fencing.ParseToken(digits); err != nil {
			return envelope{}, false
		}
	}
	rest := lines[2:]
	if id, has := strings.CutPrefix(rest[0], historyLine); has && len(rest) > 1 {
		if fencing.CheckHistory(id) != nil {
			return envelope{}, false
		}
		e.history, rest = id, rest[1:]
	}
	e.write = strings.TrimPrefix(rest[0], "write ")
	if e.deleted = len(rest) > 1; !e.deleted {
		e.body = body
	}
	// There is one way to write each: an object that differs from it in a byte was not written by a guard.
	if e.write == "" || e.deleted && len(body) > 0 || !bytes.Equal(object, e.encode()) {
		return envelope{}, false
	}
	return e, true
}

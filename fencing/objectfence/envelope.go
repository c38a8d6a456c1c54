// SPDX-License-Identifier: Apache-2.0

package objectfence

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// An envelope is an object in the store: a few lines of text, an empty line, and the body.
//
// The token is in the object and not in its metadata because of what a condition compares. An ETag of S3 is a hash of the
// object's bytes only. If the token were in the metadata, a newer holder could write the bytes that the object already has
// and leave the ETag unchanged, and the If-Match of an older holder would succeed. The name of the write ensures that no two
// writes produce the same bytes, whatever their body and token.
type envelope struct {
	newest  fencing.Token // zero after a reset to zero
	history string        // of the token; the line is absent if it is empty
	write   string        // unique name of the write
	deleted bool          // there is no body, only the token
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

// parse parses object and reports whether it is an envelope.
func parse(object []byte) (envelope, bool) {
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
	// Each envelope has exactly one encoding: a guard did not write an object that differs from it in a byte.
	if e.write == "" || e.deleted && len(body) > 0 || !bytes.Equal(object, e.encode()) {
		return envelope{}, false
	}
	return e, true
}

// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"slices"
)

// codeTooLarge is the code of zk.ErrReconfigDisabled, which servers send in no reply to the operations of this library.
const codeTooLarge = 1<<32 - 123

// refuseLarge puts a reply with the error codeTooLarge in the place of a reply that has more bytes than the client accepts, and skips that
// reply. The client would end the connection, and meet the same reply on the next one. head is the beginning of the reply.
func (w *Wire) refuseLarge(head []byte) error {
	refusal := slices.Clone(head)
	binary.BigEndian.PutUint32(refusal, codeOfReply) // the length of a reply that ends with its code
	binary.BigEndian.PutUint32(refusal[codeOfReply:], codeTooLarge)
	_, err := w.r.Discard(w.left)
	w.left, w.unread = 0, refusal
	return err
}

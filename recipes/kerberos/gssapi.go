// SPDX-License-Identifier: Apache-2.0

package kerberos

import (
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/spnego"
	"github.com/jcmturner/gokrb5/v8/types"
)

// A negotiation is the client's side of one exchange with a server.
type negotiation struct {
	ticket        messages.Ticket
	key           types.EncryptionKey // of the ticket; then the server's, if it chooses one
	chosen        bool                // the server chose the key
	authenticator types.Authenticator
}

// begin returns a negotiation with the server of the ticket.
func begin(of *credentials.Credentials, ticket messages.Ticket, key types.EncryptionKey) (*negotiation, error) {
	authenticator, err := types.NewAuthenticator(of.Domain(), of.CName())
	if err != nil {
		return nil, err
	}
	// RFC 4121, 4.1.1: no channel binding, and the flags of the context.
	binding := make([]byte, 24)
	binary.LittleEndian.PutUint32(binding, 16)
	binary.LittleEndian.PutUint32(binding[20:], gssapi.ContextFlagMutual|gssapi.ContextFlagInteg)
	authenticator.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: binding}
	return &negotiation{ticket: ticket, key: key, authenticator: authenticator}, nil
}

// run sends the tokens of the client: its request, an empty one once the server has proved its identity, and its choice of a
// security layer, none.
func (n *negotiation) run(exchange func([]byte) ([]byte, error)) error {
	request, err := n.request()
	if err != nil {
		return err
	}
	reply, err := exchange(request)
	if err != nil {
		return err
	}
	if err := n.verify(reply); err != nil {
		return fmt.Errorf("server's reply: %w", err)
	}
	offer, err := exchange(nil)
	if err != nil {
		return err
	}
	if err := n.accept(offer); err != nil {
		return fmt.Errorf("server's offer: %w", err)
	}
	choice, err := n.choice()
	if err != nil {
		return err
	}
	_, err = exchange(choice)
	return err
}

// request returns the token with the ticket, which asks for the server's proof.
func (n *negotiation) request() ([]byte, error) {
	request, err := messages.NewAPReq(n.ticket, n.key, n.authenticator)
	if err != nil {
		return nil, err
	}
	types.SetFlag(&request.APOptions, flags.APOptionMutualRequired)
	body, err := request.Marshal()
	if err != nil {
		return nil, err
	}
	token, err := asn1.Marshal(asn1.ObjectIdentifier(gssapi.OIDKRB5.OID()))
	if err != nil {
		return nil, err
	}
	token = append(token, 1, 0) // the kind of token: AP-REQ
	return asn1tools.AddASNAppTag(append(token, body...), 0), nil
}

// verify returns an error unless the reply was made with the key of the ticket, for this request.
func (n *negotiation) verify(reply []byte) error {
	var token spnego.KRB5Token
	if err := token.Unmarshal(reply); err != nil {
		return err
	}
	switch {
	case token.IsKRBError():
		return token.KRBError
	case !token.IsAPRep():
		return errors.New("neither an AP-REP nor an error")
	}
	plain, err := crypto.DecryptEncPart(token.APRep.EncPart, n.key, keyusage.AP_REP_ENCPART)
	if err != nil {
		return err
	}
	var part messages.EncAPRepPart
	if err := part.Unmarshal(plain); err != nil {
		return err
	}
	if !part.CTime.Equal(n.authenticator.CTime.Truncate(time.Second)) || part.Cusec != n.authenticator.Cusec {
		return errors.New("it answers another request")
	}
	if len(part.Subkey.KeyValue) > 0 {
		n.key, n.chosen = part.Subkey, true
	}
	return nil
}

// Flags of a wrap token.
const (
	acceptorSubkey = 4
)

// accept returns an error unless the server's offer of security layers includes none.
func (n *negotiation) accept(offer []byte) error {
	var token gssapi.WrapToken
	if err := token.Unmarshal(rotatedBack(offer), true); err != nil {
		return err
	}
	if ok, err := token.Verify(n.key, keyusage.GSSAPI_ACCEPTOR_SEAL); !ok {
		return err
	}
	const none = 1
	if len(token.Payload) < 4 || token.Payload[0]&none == 0 {
		return fmt.Errorf("security layers %x: none of them is none", token.Payload)
	}
	return nil
}

// rotatedBack undoes the rotation of a wrap token's payload and checksum (RFC 4121, 4.2.5).
func rotatedBack(token []byte) []byte {
	if len(token) <= gssapi.HdrLen {
		return token
	}
	body := token[gssapi.HdrLen:]
	by := int(binary.BigEndian.Uint16(token[6:])) % len(body)
	rotated := append([]byte(nil), token[:gssapi.HdrLen]...)
	return append(append(rotated, body[by:]...), body[:by]...)
}

// choice returns the token that chooses no security layer, and names no other identity than the principal.
func (n *negotiation) choice() ([]byte, error) {
	kind, err := crypto.GetEtype(n.key.KeyType)
	if err != nil {
		return nil, err
	}
	token := gssapi.WrapToken{
		EC:        uint16(kind.GetHMACBitLength() / 8), //nolint:gosec // a few bytes
		SndSeqNum: uint64(n.authenticator.SeqNumber),   //nolint:gosec // not negative
		Payload:   []byte{1, 0, 0, 0},
	}
	if n.chosen {
		token.Flags = acceptorSubkey
	}
	if err := token.SetCheckSum(n.key, keyusage.GSSAPI_INITIATOR_SEAL); err != nil {
		return nil, err
	}
	return token.Marshal()
}

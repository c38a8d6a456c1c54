// SPDX-License-Identifier: Apache-2.0

package kerberos

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/stretchr/testify/require"
)

// An acceptor is the server's side of a negotiation.
type acceptor struct {
	t          *testing.T
	n          *negotiation
	key        types.EncryptionKey // of the ticket
	subkey     types.EncryptionKey // that it chooses; zero if it chooses none
	ctime      time.Time           // that it answers
	layers     byte                // that it offers
	rotation   uint16              // of its offer
	exchanges  int
	choice     gssapi.WrapToken // of the client
	choiceGood bool
}

func aesKey(t *testing.T) types.EncryptionKey {
	t.Helper()
	kind, err := crypto.GetEtype(etypeID.AES256_CTS_HMAC_SHA1_96)
	require.NoError(t, err)
	key, err := types.GenerateEncryptionKey(kind)
	require.NoError(t, err)
	return key
}

// newAcceptor returns the acceptor of a new negotiation.
func newAcceptor(t *testing.T) *acceptor {
	t.Helper()
	key := aesKey(t)
	n, err := begin(credentials.New("worker", "EXAMPLE.ORG"), messages.Ticket{
		TktVNO: iana.PVNO, Realm: "EXAMPLE.ORG", SName: types.NewPrincipalName(1, "zookeeper/zk1"), EncPart: types.EncryptedData{EType: 18, Cipher: []byte("x")},
	}, key)
	require.NoError(t, err)
	return &acceptor{t: t, n: n, key: key, ctime: n.authenticator.CTime, layers: 1}
}

func (a *acceptor) exchange(token []byte) ([]byte, error) {
	a.exchanges++
	switch a.exchanges {
	case 1:
		require.NotEmpty(a.t, token)
		return a.reply(), nil
	case 2:
		require.Empty(a.t, token)
		return a.offer(), nil
	}
	require.NoError(a.t, a.choice.Unmarshal(token, false))
	a.choiceGood, _ = a.choice.Verify(a.agreed(), keyusage.GSSAPI_INITIATOR_SEAL)
	return nil, nil
}

func (a *acceptor) agreed() types.EncryptionKey {
	if len(a.subkey.KeyValue) > 0 {
		return a.subkey
	}
	return a.key
}

// reply returns an AP-REP.
func (a *acceptor) reply() []byte {
	part, err := asn1.Marshal(messages.EncAPRepPart{CTime: a.ctime, Cusec: a.n.authenticator.Cusec, Subkey: a.subkey})
	require.NoError(a.t, err)
	if len(a.subkey.KeyValue) == 0 { // the package writes an empty one
		part, err = asn1.Marshal(struct {
			CTime time.Time `asn1:"generalized,explicit,tag:0"`
			Cusec int       `asn1:"explicit,tag:1"`
		}{a.ctime, a.n.authenticator.Cusec})
		require.NoError(a.t, err)
	}
	sealed, err := crypto.GetEncryptedData(asn1tools.AddASNAppTag(part, asnAppTag.EncAPRepPart), a.key, keyusage.AP_REP_ENCPART, 0)
	require.NoError(a.t, err)
	body, err := asn1.Marshal(messages.APRep{PVNO: iana.PVNO, MsgType: msgtype.KRB_AP_REP, EncPart: sealed})
	require.NoError(a.t, err)
	token, err := asn1.Marshal(gssapi.OIDKRB5.OID())
	require.NoError(a.t, err)
	token = append(token, 2, 0)
	return asn1tools.AddASNAppTag(append(token, asn1tools.AddASNAppTag(body, asnAppTag.APREP)...), 0)
}

// offer returns a wrap token with the layers.
func (a *acceptor) offer() []byte {
	token := gssapi.WrapToken{Flags: 1, EC: 12, Payload: []byte{a.layers, 0, 0xff, 0xff}}
	if len(a.subkey.KeyValue) > 0 {
		token.Flags |= acceptorSubkey
	}
	require.NoError(a.t, token.SetCheckSum(a.agreed(), keyusage.GSSAPI_ACCEPTOR_SEAL))
	b, err := token.Marshal()
	require.NoError(a.t, err)
	body, by := b[gssapi.HdrLen:], int(a.rotation)
	rotated := append(append([]byte(nil), body[len(body)-by:]...), body[:len(body)-by]...)
	binary.BigEndian.PutUint16(b[6:], a.rotation)
	return append(b[:gssapi.HdrLen:gssapi.HdrLen], rotated...)
}

func TestClientAndServerAgreeOnNoSecurityLayer(t *testing.T) {
	for name, change := range map[string]func(*acceptor){
		"key of the ticket": func(*acceptor) {},
		"key of the server": func(a *acceptor) { a.subkey = aesKey(a.t) },
		"rotated offer":     func(a *acceptor) { a.rotation = 12 },
		"all layers":        func(a *acceptor) { a.layers = 7 },
	} {
		t.Run(name, func(t *testing.T) {
			a := newAcceptor(t)
			change(a)
			require.NoError(t, a.n.run(a.exchange))
			require.Equal(t, 3, a.exchanges)
			require.True(t, a.choiceGood)
			require.Equal(t, []byte{1, 0, 0, 0}, a.choice.Payload)
			require.Equal(t, uint64(a.n.authenticator.SeqNumber), a.choice.SndSeqNum)
		})
	}
}

func TestServerWithoutTheKeyOfTheTicketIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change    func(*acceptor)
		exchanges int
		why       string
	}{
		"another key":           {func(a *acceptor) { a.key = aesKey(a.t) }, 1, "server's reply: "},
		"reply to another time": {func(a *acceptor) { a.ctime = a.ctime.Add(-time.Second) }, 1, "server's reply: it answers another request"},
		"no layer that we have": {func(a *acceptor) { a.layers = 4 }, 2, "server's offer: security layers 0400ffff: none of them is none"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAcceptor(t)
			c.change(a)
			require.ErrorContains(t, a.n.run(a.exchange), c.why)
			require.Equal(t, c.exchanges, a.exchanges)
		})
	}
}

func TestOfferThatWasAlteredIsRefused(t *testing.T) {
	a := newAcceptor(t)
	require.NoError(t, a.n.verify(a.reply()))
	good := a.offer()
	require.NoError(t, a.n.accept(good))
	for i := range good {
		if i == 6 || i == 7 { // the count of the rotation, which has no checksum
			continue
		}
		altered := append([]byte(nil), good...)
		altered[i] ^= 0x10
		require.Error(t, a.n.accept(altered), "byte %d", i)
	}
	for i := range good {
		require.Error(t, a.n.accept(good[:i]), "%d bytes", i)
	}
}

// SPDX-License-Identifier: Apache-2.0

package digestmd5

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const challenge = `realm="zk-sasl-md5",nonce="OA6MG9tEQGm2hh",charset=utf-8,algorithm=md5-sess`

// The exchanges were recorded between client and server of the JDK (17.0.15), whose mechanism
// ZooKeeper's servers use.
func TestResponseIsThatOfTheJDK(t *testing.T) {
	for _, c := range []struct{ user, password, nonce, cnonce, response, proof string }{
		{"bob", "secret", "gfnKdApEVss68d6iLQ/PrAIgtCfy4iPLKd330wqW", "R1w6wJ0Chczu1OHJd/b4Auh+NNpHGLW4ve8ea/uJ", "fa21d1e35a7470a18bb00b269fbffed9", "506acac89a02847833ba0cc31109a0fe"},
		{"bé", "süß", "jJH330sFzbFFpede0GOpqv/cxlkbrha0Rbbi5ZyK", "41JR9QSTkybXPn9CAwbxAVOl76Xro8rHnrBoUuK7", "f827bc9913fe0520c10a1c5407d209dd", "907bb53c7ccf20d593199dfd29c15825"},
		{"b€", "pü€", "UPLuNUDnjtMfSPmOeIyYFqtMOdhT+DodWkTqw3+H", "FS/uueLYbHGscIUoIyqtfsCRhSHNn/HRGjAmCbB3", "d158f71dd19716d865c38d045b1c5e4e", "816702d3f0016702a0b91c50664f6a6f"},
		{`q"\u`, "x:y", "qa91bW2JZCw4mKamaFUM4ciPiTAnnLaHymyL4WCW", "M+ImTq2hhsRx6mxb128yU7rNFoba+arEw91LOhJh", "b151836261b08f61b1e55e672a373a6e", "e310d1c1d228f0b49695858c513735cb"},
	} {
		r, err := Respond([]byte(`realm="zk-sasl-md5",nonce="`+c.nonce+`",charset=utf-8,algorithm=md5-sess`), c.user, c.password, c.cnonce)
		require.NoError(t, err)
		given, err := parse(r.Token)
		require.NoError(t, err)
		require.Equal(t, c.user, given.first("username"))
		require.Equal(t, c.response, given.first("response"))
		require.NoError(t, r.Verify([]byte("rspauth="+c.proof)))
	}
}

func TestResponseHasTheDirectivesThatServersRequire(t *testing.T) {
	r, err := Respond([]byte(challenge), `bo"b\`, "secret", "OA6MHXh6VqTrRk")
	require.NoError(t, err)
	given, err := parse(r.Token)
	require.NoError(t, err)
	require.Equal(t, directives{
		"charset": {"utf-8"}, "username": {`bo"b\`}, "realm": {"zk-sasl-md5"}, "nonce": {"OA6MG9tEQGm2hh"},
		"nc": {"00000001"}, "cnonce": {"OA6MHXh6VqTrRk"}, "digest-uri": {URI}, "qop": {"auth"},
		"response": given["response"],
	}, given)
	require.Regexp(t, "^[0-9a-f]{32}$", given.first("response"))
}

func TestUnacceptableChallengeIsNamed(t *testing.T) {
	for token, why := range map[string]string{
		"":                             "no nonce",
		"bogus":                        `"bogus" is not a directive`,
		`nonce="x`:                     "nonce: quoted value without an end",
		`nonce="x"y`:                   `nonce: followed by "y"`,
		`nonce="x"`:                    `algorithm "": must be md5-sess`,
		`nonce="x",algorithm=md5`:      `algorithm "md5": must be md5-sess`,
		challenge + `,qop="auth-conf"`: `quality of protection "auth-conf": must include auth`,
		`=x`:                           `"=x" is not a directive`,
	} {
		_, err := Respond([]byte(token), "bob", "secret", "c")
		require.ErrorContains(t, err, "challenge: "+why)
	}
	for _, token := range []string{challenge + `,qop="auth-int, auth"`, " ,\t" + challenge + " , ", `algorithm=md5-sess,nonce="x"`} {
		_, err := Respond([]byte(token), "bob", "secret", "c")
		require.NoError(t, err)
	}
}

func TestServerMustProveThatItKnowsThePassword(t *testing.T) {
	r, err := Respond([]byte(challenge), "bob", "secret", "c")
	require.NoError(t, err)
	require.NoError(t, r.Verify([]byte("rspauth="+r.proof)))
	other, err := Respond([]byte(challenge), "bob", "other", "c")
	require.NoError(t, err)
	for _, token := range []string{"", "rspauth=", "rspauth=" + other.proof, `rspauth="`} {
		require.ErrorContains(t, r.Verify([]byte(token)), "answer: ")
	}
}

func TestHashedTextIsInISO88591IfThatHasAllItsCharacters(t *testing.T) {
	require.Equal(t, "na\xefve", legacy("naïve"))
	require.Equal(t, "naïve €", legacy("naïve €"))
}

func TestTextIsSentInISO88591UnlessTheServerReadsUTF8(t *testing.T) {
	r, err := Respond([]byte(`nonce="n",algorithm=md5-sess`), "bé", "secret", "c")
	require.NoError(t, err)
	given, err := parse(r.Token)
	require.NoError(t, err)
	require.Equal(t, "b\xe9", given.first("username"))
	require.False(t, given.has("realm") || given.has("charset"))
}

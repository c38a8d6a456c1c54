// SPDX-License-Identifier: Apache-2.0

package sasl

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The exchanges were recorded between client and server of the JDK (17.0.15).
func TestResponseOfTheJDKIsAccepted(t *testing.T) {
	for _, c := range []struct{ user, password, quoted, nonce, cnonce, response, proof string }{
		{"bob", "secret", "bob", "gfnKdApEVss68d6iLQ/PrAIgtCfy4iPLKd330wqW", "R1w6wJ0Chczu1OHJd/b4Auh+NNpHGLW4ve8ea/uJ", "fa21d1e35a7470a18bb00b269fbffed9", "506acac89a02847833ba0cc31109a0fe"},
		{"bé", "süß", "bé", "jJH330sFzbFFpede0GOpqv/cxlkbrha0Rbbi5ZyK", "41JR9QSTkybXPn9CAwbxAVOl76Xro8rHnrBoUuK7", "f827bc9913fe0520c10a1c5407d209dd", "907bb53c7ccf20d593199dfd29c15825"},
		{"b€", "pü€", "b€", "UPLuNUDnjtMfSPmOeIyYFqtMOdhT+DodWkTqw3+H", "FS/uueLYbHGscIUoIyqtfsCRhSHNn/HRGjAmCbB3", "d158f71dd19716d865c38d045b1c5e4e", "816702d3f0016702a0b91c50664f6a6f"},
		{`q"\u`, "x:y", `q\"\\u`, "qa91bW2JZCw4mKamaFUM4ciPiTAnnLaHymyL4WCW", "M+ImTq2hhsRx6mxb128yU7rNFoba+arEw91LOhJh", "b151836261b08f61b1e55e672a373a6e", "e310d1c1d228f0b49695858c513735cb"},
	} {
		s := NewServer(map[string]string{c.user: c.password}, c.nonce)
		challenge, user, err := s.Step(nil)
		require.NoError(t, err)
		require.Empty(t, user)
		require.Equal(t, `realm="zk-sasl-md5",nonce="`+c.nonce+`",charset=utf-8,algorithm=md5-sess`, string(challenge))
		answer, user, err := s.Step([]byte(`charset=utf-8,username="` + c.quoted + `",realm="zk-sasl-md5",nonce="` + c.nonce +
			`",nc=00000001,cnonce="` + c.cnonce + `",digest-uri="zookeeper/zk-sasl-md5",maxbuf=65536,response=` + c.response + `,qop=auth`))
		require.NoError(t, err)
		require.Equal(t, "rspauth="+c.proof, string(answer))
		require.Equal(t, c.user, user)
		_, _, err = s.Step(nil)
		require.ErrorIs(t, err, ErrRefused)
	}
}

func TestOtherResponsesAreRefused(t *testing.T) {
	const right = `charset=utf-8,username="bob",realm="zk-sasl-md5",nonce="gfnKdApEVss68d6iLQ/PrAIgtCfy4iPLKd330wqW",nc=00000001,` +
		`cnonce="R1w6wJ0Chczu1OHJd/b4Auh+NNpHGLW4ve8ea/uJ",digest-uri="zookeeper/zk-sasl-md5",response=fa21d1e35a7470a18bb00b269fbffed9,qop=auth`
	users := map[string]string{"bob": "secret", "ann": "other"}
	answer := func(response string) error {
		s := NewServer(users, "gfnKdApEVss68d6iLQ/PrAIgtCfy4iPLKd330wqW")
		_, _, err := s.Step(nil)
		require.NoError(t, err)
		_, user, err := s.Step([]byte(response))
		require.True(t, err == nil || user == "")
		return err
	}
	require.NoError(t, answer(right))
	for part, change := range map[string]string{
		`"bob"`: `"ann"`, `username="bob"`: `username="eve"`, `"zk-sasl-md5"`: `"other"`, "gfnKd": "gfnke",
		"R1w6": "r1w6", "zookeeper/": "kafka/", "fa21": "fa22", "qop=auth": "qop=auth-conf", `cnonce=`: `other=`,
		`charset=`: `,=`, `realm="`: `realm=""`,
	} {
		require.Contains(t, right, part)
		require.ErrorIs(t, answer(strings.Replace(right, part, change, 1)), ErrRefused, part)
	}
	require.ErrorIs(t, answer(""), ErrRefused)
	require.ErrorIs(t, answer(right+strings.Repeat(",", 4096)), ErrRefused)
	_, _, err := NewServer(users, "n").Step([]byte(strings.Repeat(",", 4097)))
	require.ErrorIs(t, err, ErrRefused)
}

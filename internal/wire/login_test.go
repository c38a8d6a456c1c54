// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/wiretest"
)

// answer is the frame of a server's answer to a token; nil is the null token.
func answer(xid, code int32, token []byte) []byte {
	packet := binary.BigEndian.AppendUint32(nil, uint32(xid))
	packet = binary.BigEndian.AppendUint64(packet, 0)
	packet = binary.BigEndian.AppendUint32(packet, uint32(code))
	if token == nil {
		return wiretest.Framed(binary.BigEndian.AppendUint32(packet, 1<<32-1))
	}
	return wiretest.Framed(wiretest.AppendString(packet, string(token)))
}

func TestLoginEndsBeforeTheClientReadsTheReplyToItsHandshake(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		b := newWireBench(t, time.Minute)
		hello := wiretest.Hello(wiretest.Timeout, 0x100)
		var sent [][]byte
		go func() { // the server
			_, _ = b.server.Write(hello)
			for xid := int32(1); xid <= 3; xid++ {
				packet, err := wiretest.Read(b.server)
				if err != nil {
					return
				}
				sent = append(sent, packet)
				_, _ = b.server.Write(answer(xid, 0, [][]byte{[]byte("challenge"), {}, nil}[xid-1]))
			}
			_, _ = b.server.Write(wiretest.Reply(7, 1, 0, []byte("body")))
		}()
		var answers []string
		b.hooks.Login = func(exchange Exchange) error {
			require.Equal(t, int64(0x100), b.hello.SessionID, "after Greeted")
			for _, token := range []string{"", "response", "last"} {
				got, err := exchange([]byte(token))
				require.NoError(t, err)
				answers = append(answers, string(got))
			}
			return nil
		}
		packet, err := b.next()
		require.NoError(t, err)
		require.Equal(t, hello[4:], packet, "the client reads the reply that came before the exchange")
		require.Equal(t, []string{"challenge", "", ""}, answers)
		require.Equal(t, []byte{0, 0, 0, 1, 0, 0, 0, opSASL, 0, 0, 0, 0}, sent[0], "an empty token, not a null one")
		require.Equal(t, append([]byte{0, 0, 0, 2, 0, 0, 0, opSASL, 0, 0, 0, 8}, "response"...), sent[1])
		packet, err = b.next()
		require.NoError(t, err)
		require.Equal(t, wiretest.Reply(7, 0, 0, []byte("body"))[4:], packet, "its zxid is hidden as ever")
	})
}

func TestExpiredSessionDoesNotLogIn(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		b := newWireBench(t, time.Minute)
		b.hooks.Login = func(Exchange) error { panic("there is no session") }
		b.serve(wiretest.Hello(0, 0))
		packet, err := b.next()
		require.NoError(t, err)
		require.Equal(t, wiretest.Hello(0, 0)[4:], packet)
	})
}

func TestFailedLoginFailsTheHandshake(t *testing.T) {
	long := answer(1, 0, nil)
	binary.BigEndian.PutUint32(long, 1<<30)
	for name, c := range map[string]struct {
		frame []byte
		why   string
		is    error
	}{
		"refused":                     {answer(1, -115, nil), "SASL: server refused the credentials (code -115)", ErrRefused},
		"refused without a token":     {wiretest.Reply(1, 0, -124, nil), "SASL: server refused the credentials (code -124)", ErrRefused},
		"answer to another token":     {answer(2, 0, nil), "SASL: answer 2 of 20 bytes: not the answer to token 1", nil},
		"answer that is too long":     {long, "SASL: answer 1 of 1073741824 bytes", nil},
		"server closes":               {nil, "SASL: server closed the connection during the exchange", io.EOF},
		"server closes in the answer": {answer(1, 0, []byte("x"))[:22], "SASL: server closed the connection during the exchange", io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				b := newWireBench(t, time.Minute)
				b.hooks.Login = func(exchange Exchange) error { _, err := exchange(nil); return err }
				go func() {
					_, _ = b.server.Write(wiretest.Hello(wiretest.Timeout, 7))
					_, _ = wiretest.Read(b.server)
					_, _ = b.server.Write(c.frame)
					_ = b.server.Close()
				}()
				n, err := b.Read(make([]byte, 4))
				require.Zero(t, n, "the client does not learn of the session")
				require.ErrorContains(t, err, c.why)
				require.Equal(t, err, b.failure)
				if c.is != nil {
					require.ErrorIs(t, err, c.is)
				}
			})
		})
	}
}

func TestLoginEndsAtTheBoundOfTheHandshake(t *testing.T) {
	for name, read := range map[string]bool{"server does not answer": true, "server does not read": false} {
		faketime.Test(t, func(t *testing.T) {
			b := newWireBench(t, time.Second)
			b.hooks.Login = func(exchange Exchange) error { _, err := exchange(nil); return err }
			began := time.Now()
			go func() {
				_, _ = b.server.Write(wiretest.Hello(wiretest.Timeout, 7))
				if read {
					_, _ = io.Copy(io.Discard, b.server)
				}
			}()
			require.NoError(t, b.SetReadDeadline(began.Add(80*time.Second)))
			_, err := b.Read(make([]byte, 4))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded, name)
			require.Equal(t, time.Second, time.Since(began), name)
		})
	}
}

func TestLoginOfAClosedConnectionEnds(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		b := newWireBench(t, time.Minute)
		b.hooks.Login = func(exchange Exchange) error {
			time.AfterFunc(time.Second, func() { b.Sever() })
			_, err := exchange(nil)
			return err
		}
		b.drain()
		b.serve(wiretest.Hello(wiretest.Timeout, 7))
		began := time.Now()
		_, err := b.Read(make([]byte, 4))
		require.ErrorContains(t, err, "SASL: exchange: use of closed network connection")
		require.False(t, errors.Is(err, ErrRefused))
		require.Equal(t, time.Second, time.Since(began))
	})
}

func TestServerThatRequiresALoginIsNamedByAKnownError(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		b := newWireBench(t, time.Minute)
		b.shake(t)
		b.serve(wiretest.Reply(1, 0, -124, nil), wiretest.Reply(2, 0, -101, nil))
		for _, want := range [][]byte{wiretest.Reply(1, 0, -115, nil), wiretest.Reply(2, 0, -101, nil)} {
			packet, err := b.next()
			require.NoError(t, err)
			require.Equal(t, want[4:], packet)
		}
	})
}

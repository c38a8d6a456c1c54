// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"crypto/fips140"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/digestmd5"
)

// SASL authenticates the client to the servers by a mechanism of SASL, in ZooKeeper's scheme
// "sasl". DigestMD5 returns one; module recipes/kerberos has another.
//
// Authenticate is called for each connection, once the server has attached the session and
// before the first request. host is the server's, as the server list has it. Each call of
// exchange sends one token, and returns the token of the server's answer: both can be empty.
// Authenticate returns nil when the server has accepted the client, and has proved its own
// identity if the mechanism includes that.
//
// ctx and exchange end with the handshake: after 3 s at first, and T/12 once the session exists.
// Dial and handshake share that time. A call that ignores ctx is abandoned, and delays no
// claim's notification, but its goroutine can outlive Client.Close. A client makes one call at a
// time, unless it has abandoned one or opens a session while it closes the previous one.
//
// If the server refuses a token, the error of exchange wraps zk.ErrAuthFailed. Authenticate
// returns an error that wraps it, or its own error that wraps zk.ErrAuthFailed if the
// credentials cannot succeed: Connect then fails immediately. After any other error, and once
// the client has had a session, it tries the next server, and backs off.
type SASL interface {
	Authenticate(ctx context.Context, host string, exchange func(token []byte) (answer []byte, err error)) error
}

// DigestMD5 returns the mechanism DIGEST-MD5, for an ensemble that has the passwords of its users in
// section "Server" of its JAAS configuration. The password is not sent, and the server proves that
// it knows it. Nothing else is protected: use TLS as well.
//
// ACLs name the user as {Scheme: "sasl", ID: user}. The mechanism depends on MD5, so that it
// fails where GODEBUG=fips140=only is set.
func DigestMD5(user, password string) SASL { return digestMD5{user, password} }

type digestMD5 struct{ user, password string }

// String returns the mechanism and the user, so that the password is not printed.
func (d digestMD5) String() string { return "DIGEST-MD5 of " + d.user }

// GoString is String.
func (d digestMD5) GoString() string { return d.String() }

func (d digestMD5) Authenticate(_ context.Context, _ string, exchange func([]byte) ([]byte, error)) error {
	if fips140.Enforced() {
		return fmt.Errorf("%w: DIGEST-MD5 is not available: FIPS 140-3 mode excludes MD5", zk.ErrAuthFailed)
	}
	challenge, err := exchange(nil)
	if err != nil {
		return fmt.Errorf("DIGEST-MD5: %w", err)
	}
	if len(challenge) == 0 {
		return fmt.Errorf("DIGEST-MD5: %w", errNoChallenge)
	}
	response, err := digestmd5.Respond(challenge, d.user, d.password, rand.Text())
	if err != nil {
		return fmt.Errorf("DIGEST-MD5: %w: %w", zk.ErrAuthFailed, err)
	}
	answer, err := exchange(response.Token)
	if err == nil {
		err = response.Verify(answer)
	}
	if err != nil {
		return fmt.Errorf("DIGEST-MD5, user %q: %w", d.user, err)
	}
	return nil
}

// errNoChallenge is what a server without a SASL configuration causes: it answers each token with an
// empty one.
var errNoChallenge = fmt.Errorf("%w: %w", zk.ErrAuthFailed,
	errors.New("server answers without a challenge: it has no SASL configuration, or one for another mechanism"))

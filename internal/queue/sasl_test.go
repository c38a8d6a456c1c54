// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// startSecured starts servers that require SASL of every client.
func startSecured(t *testing.T, servers int) *ensemble {
	t.Helper()
	return startEnsemble(t, zktest.Options{
		Servers: servers, InMemory: true, Users: map[string]string{"bob": "sécret", "ann": "other"}, RequireSASL: true,
	})
}

func (s *ensemble) optionsOf(mechanism recipes.SASL) *recipes.Options {
	opts := s.options()
	opts.SASL = mechanism
	return opts
}

// logins returns how many exchanges the servers have received.
func (s *ensemble) logins() int {
	const tokens = 2 // of DIGEST-MD5
	return len(s.seen(func(r zktest.Request) bool { return r.Op == "sasl" })) / tokens
}

func TestLoginPrecedesEveryRequestOfEachConnection(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := startSecured(t, 3)
		client := s.connect(s.optionsOf(recipes.DigestMD5("bob", "sécret")))
		claim := claimed(t, client)
		require.Equal(t, 1, s.logins())
		for n := range 3 {
			s.link.Reset()
			time.Sleep(time.Second)
			require.NoError(t, claim.Check(t.Context()))
			require.Equal(t, n+2, s.logins())
		}
		s.expire(client.SessionID())
		_, err := engineOf(client).Session(t.Context())
		require.NoError(t, err)
		require.NoError(t, claimed(t, client).Check(t.Context()), "the next session logs in too")
		require.ErrorIs(t, claim.Err(), recipes.ErrSessionExpired)
	})
}

func TestUserOfSASLHasTheNodesThatItsACLNames(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := startSecured(t, 1)
		opts := s.optionsOf(recipes.DigestMD5("bob", "sécret"))
		opts.ACL = []zk.ACL{{Scheme: "sasl", ID: "bob", Perms: zk.PermAll}}
		require.NoError(t, claimed(t, s.connect(opts)).Check(t.Context()))

		_, err := newQueue(t, s.connect(s.optionsOf(recipes.DigestMD5("ann", "other"))), nil).Claim(t.Context())
		require.ErrorIs(t, err, zk.ErrNoAuth)
	})
}

func TestWrongCredentialsEndConnectAfterOneAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		user, password string
		options        zktest.Options
		why            string
	}{
		"password": {"bob", "sEcret", zktest.Options{Users: map[string]string{"bob": "secret"}}, `user "bob": zk: client authentication failed: server refused the credentials (code -115)`},
		"user":     {"eve", "secret", zktest.Options{Users: map[string]string{"bob": "secret"}}, `user "eve": zk: client authentication failed`},
		"required": {"eve", "secret", zktest.Options{Users: map[string]string{"bob": "secret"}, RequireSASL: true}, `server refused the credentials (code -124)`},
		"no SASL":  {"bob", "secret", zktest.Options{}, "server answers without a challenge: it has no SASL configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				c.options.InMemory, c.options.Servers = true, 3
				s := startEnsemble(t, c.options)
				ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
				defer cancel()
				began := time.Now()
				_, err := recipes.Connect(ctx, s.Addrs(), s.optionsOf(recipes.DigestMD5(c.user, c.password)))
				require.ErrorIs(t, err, zk.ErrAuthFailed)
				require.ErrorContains(t, err, "connect: zktest-")
				require.ErrorContains(t, err, ":2181: SASL: DIGEST-MD5")
				require.ErrorContains(t, err, c.why)
				require.NotContains(t, err.Error(), c.password)
				require.LessOrEqual(t, time.Since(began), time.Second)
				require.Equal(t, 1, int(s.dials.Load()))
			})
		})
	}
}

func TestClientWithoutCredentialsIsRefusedAtItsFirstRequest(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := startSecured(t, 1)
		client := s.connect(s.options())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := newQueue(t, client, nil).Claim(ctx)
		require.ErrorIs(t, err, zk.ErrAuthFailed)
		require.ErrorContains(t, err, "read /l: zk: client authentication failed: the server requires SASL: set Options.SASL")
		require.LessOrEqual(t, time.Since(began), time.Second)
		require.Empty(t, s.queue())
	})
}

// A changing mechanism is another one after each store.
type changing struct{ atomic.Value }

func changingSASL(first recipes.SASL) *changing {
	c := new(changing)
	c.Store(&first)
	return c
}

func (c *changing) become(mechanism recipes.SASL) { c.Store(&mechanism) }

func (c *changing) Authenticate(ctx context.Context, host string, exchange func([]byte) ([]byte, error)) error {
	return (*c.Load().(*recipes.SASL)).Authenticate(ctx, host, exchange)
}

func TestRefusalAtReconnectionEndsTheClaimAtItsDeadlineAndNotTheClient(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := startSecured(t, 3)
		mechanism := changingSASL(recipes.DigestMD5("bob", "sécret"))
		client := s.connect(s.optionsOf(mechanism))
		claim := claimed(t, client)
		time.Sleep(testTimeout)
		deadline := claim.Deadline()
		mechanism.become(recipes.DigestMD5("bob", "changed"))
		dials := int(s.dials.Load())
		s.link.Reset()
		<-claim.Done()
		require.ErrorIs(t, claim.Err(), recipes.ErrDeadline)
		require.LessOrEqual(t, time.Now(), deadline)

		ctx, cancel := context.WithTimeout(t.Context(), 10*testTimeout)
		defer cancel()
		_, err := newQueue(t, client, nil).Claim(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, `user "bob": zk: client authentication failed: server refused the credentials`)
		require.LessOrEqual(t, int(s.dials.Load())-dials, 200, "no storm: about 5 in T for each of two sessions, and the first rounds")

		mechanism.become(recipes.DigestMD5("bob", "sécret"))
		require.NoError(t, claimed(t, client).Check(t.Context()))
	})
}

// A deaf mechanism blocks until it is released, whatever its context.
type deaf struct {
	recipes.SASL
	block    atomic.Bool
	entered  atomic.Int64
	released chan struct{}
}

func (d *deaf) Authenticate(ctx context.Context, host string, exchange func([]byte) ([]byte, error)) error {
	if d.block.Load() {
		d.entered.Add(1)
		<-d.released
		if _, err := exchange(nil); err == nil {
			panic("an exchange after the handshake's end succeeded")
		}
	}
	return d.SASL.Authenticate(ctx, host, exchange)
}

func TestMechanismThatIgnoresItsContextDelaysNoDeadline(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := startSecured(t, 3)
		mechanism := &deaf{SASL: recipes.DigestMD5("bob", "sécret"), released: make(chan struct{})}
		client := s.connect(s.optionsOf(mechanism))
		claim := claimed(t, client)
		time.Sleep(testTimeout)
		deadline := claim.Deadline()
		mechanism.block.Store(true)
		s.link.Reset()
		<-claim.Done()
		require.ErrorIs(t, claim.Err(), recipes.ErrDeadline)
		require.LessOrEqual(t, time.Now(), deadline)
		require.Greater(t, int(mechanism.entered.Load()), 3, "it is called again on another connection")
		require.ErrorContains(t, engineOf(client).Why(), "the SASL of the options ignores its context")

		began := time.Now()
		client.Close()
		require.LessOrEqual(t, time.Since(began), 4*time.Second)
		close(mechanism.released)
		synctest.Wait()
	})
}

// A timed mechanism reports how much time it has.
type timed struct {
	recipes.SASL
	left chan time.Duration
	host chan string
}

func (o *timed) Authenticate(ctx context.Context, host string, exchange func([]byte) ([]byte, error)) error {
	deadline, _ := ctx.Deadline()
	o.left <- time.Until(deadline)
	o.host <- host
	return o.SASL.Authenticate(ctx, host, exchange)
}

func TestLoginSharesTheTimeOfTheHandshake(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := startSecured(t, 1)
		mechanism := &timed{recipes.DigestMD5("bob", "sécret"), make(chan time.Duration, 9), make(chan string, 9)}
		s.connect(s.optionsOf(mechanism))
		require.Equal(t, 3*time.Second, <-mechanism.left)
		require.Equal(t, "zktest-1", <-mechanism.host)
		s.link.Delay(200 * time.Millisecond)
		s.link.Reset()
		left := <-mechanism.left
		require.Positive(t, left)
		require.Less(t, left, testTimeout/12-200*time.Millisecond, "the handshake took some of it")
	})
}

func TestServerThatDoesNotKnowThePasswordIsRefused(t *testing.T) {
	for _, answer := range []string{"rspauth=ea40f60335c427b5527b84dbabcdfffd", ""} {
		tokens := 0
		err := recipes.DigestMD5("bob", "secret").Authenticate(t.Context(), "zk1", func([]byte) ([]byte, error) {
			tokens++
			return []byte([]string{`realm="zk-sasl-md5",nonce="n",charset=utf-8,algorithm=md5-sess`, answer}[tokens-1]), nil
		})
		require.EqualError(t, err, `DIGEST-MD5, user "bob": answer: the server did not prove that it knows the password`)
		require.NotErrorIs(t, err, zk.ErrAuthFailed, "another server may know it")
	}
}

// A retentive mechanism keeps the last exchange.
type retentive struct {
	recipes.SASL
	exchange func([]byte) ([]byte, error)
}

func (r *retentive) Authenticate(ctx context.Context, host string, exchange func([]byte) ([]byte, error)) error {
	r.exchange = exchange
	return r.SASL.Authenticate(ctx, host, exchange)
}

func TestExchangeAfterTheLoginFailsAndDisturbsNoRequest(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := startSecured(t, 1)
		mechanism := &retentive{SASL: recipes.DigestMD5("bob", "sécret")}
		client := s.connect(s.optionsOf(mechanism))
		_, err := mechanism.exchange(nil)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, claimed(t, client).Check(t.Context()))
		require.Equal(t, 1, int(s.dials.Load()))
	})
}

func TestPasswordIsNotPrinted(t *testing.T) {
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(format, recipes.Options{SASL: recipes.DigestMD5("bob", "secret")}), "secret")
	}
}

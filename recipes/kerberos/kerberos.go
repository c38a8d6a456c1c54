// SPDX-License-Identifier: Apache-2.0

// Package kerberos authenticates a Lockkeeper client to ZooKeeper's servers by Kerberos: the mechanism GSSAPI of SASL
// (RFC 4752), on github.com/jcmturner/gokrb5. It needs no C library.
//
//	mechanism := kerberos.New(kerberos.Keytab("/etc/krb5.conf", "/etc/worker.keytab", "worker/host1@EXAMPLE.ORG"), nil)
//	defer mechanism.Close()
//	client, err := recipes.Connect(ctx, servers, &recipes.Options{SASL: mechanism})
//
// Client and server authenticate each other. The exchange negotiates no protection of what follows, as ZooKeeper has none:
// use TLS as well.
package kerberos

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"
	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/krberror"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// Options are the options of a Mechanism. The zero value of a field means its default.
type Options struct {
	// Principal is the principal of the servers, if all have the same: "zookeeper/zk.example.org". The default is
	// zookeeper/HOST for each, with its host as in the server list, which therefore must be the name in its
	// principal and not an address. The realm is what krb5.conf's [domain_realm] has for the host, or the client's own.
	Principal string

	_ struct{}
}

// A Login returns a client of gokrb5 that has credentials: see Keytab, Cache, and its NewWithPassword. The Mechanism destroys
// the client.
type Login func() (*client.Client, error)

// Keytab returns the Login of a principal, "name@REALM", with the key in a keytab. Without a realm it is the default one of
// krb5.conf. Both files are read at each login, so that they may be replaced.
func Keytab(krb5conf, file, principal string) Login {
	return func() (*client.Client, error) {
		conf, err := config.Load(krb5conf)
		if err != nil {
			return nil, fmt.Errorf("krb5.conf: %w", err)
		}
		keys, err := keytab.Load(file)
		if err != nil {
			return nil, fmt.Errorf("keytab: %w", err)
		}
		name, realm := types.ParseSPNString(principal)
		if realm == "" {
			realm = conf.LibDefaults.DefaultRealm
		}
		return client.NewWithKeytab(name.PrincipalNameString(), realm, keys, conf, client.DisablePAFXFAST(true)), nil
	}
}

// Cache returns the Login with the tickets in a credential cache, a file that kinit writes. Another program has to renew them.
func Cache(krb5conf, file string) Login {
	return func() (*client.Client, error) {
		conf, err := config.Load(krb5conf)
		if err != nil {
			return nil, fmt.Errorf("krb5.conf: %w", err)
		}
		tickets, err := credentials.LoadCCache(file)
		if err != nil {
			return nil, fmt.Errorf("credential cache: %w", err)
		}
		return client.NewFromCCache(tickets, conf, client.DisablePAFXFAST(true))
	}
}

// A Mechanism is the mechanism GSSAPI for one principal. It is safe for concurrent use.
type Mechanism struct {
	login     Login
	principal string

	mu      sync.Mutex // guards what follows, and the fields of a source
	current *source    // nil before the first login and after a failure
	closed  bool
}

// A source is a client of gokrb5 that is logged in, or about to. It is destroyed when it is dropped and no call uses it:
// gokrb5 does not allow Destroy during a call.
type source struct {
	*client.Client
	uses    int
	dropped bool
}

var _ recipes.SASL = (*Mechanism)(nil)

// New returns the mechanism of a client that logs in by login, which is called at the first connection, and again after a
// failure. It requests a ticket for each server once and keeps it, and its login, until they expire: most connections need no
// key distribution center (KDC). Close it after the client of Lockkeeper.
func New(login Login, opts *Options) *Mechanism {
	m := &Mechanism{login: login}
	if opts != nil {
		m.principal = opts.Principal
	}
	return m
}

// Close forgets the tickets, and ends the goroutines that renew them, if need be at the end of the call that uses them.
func (m *Mechanism) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	if m.current != nil {
		m.drop(m.current)
	}
}

// drop makes the next call log in again. The caller holds mu.
func (m *Mechanism) drop(s *source) {
	s.dropped = true
	if m.current == s {
		m.current = nil
	}
	if s.uses == 0 {
		s.Destroy()
	}
}

// use returns a source, for the caller to return to unuse.
func (m *Mechanism) use() (*source, error) {
	for {
		if s, err := m.take(); s != nil || err != nil {
			return s, err
		}
		made, err := m.login()
		if err != nil {
			return nil, err
		}
		m.adopt(made)
	}
}

// take returns the current source, nil if there is none.
func (m *Mechanism) take() (*source, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errors.New("mechanism is closed")
	}
	if m.current != nil {
		m.current.uses++
	}
	return m.current, nil
}

// adopt makes a client of gokrb5 the current source, unless another call was faster.
func (m *Mechanism) adopt(made *client.Client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.current != nil {
		made.Destroy()
		return
	}
	m.current = &source{Client: made}
}

// unuse ends a use. After a failure the source is dropped: its tickets, or the key in its keytab, may be those that the servers or
// the KDC have replaced.
func (m *Mechanism) unuse(s *source, failed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.uses--
	if failed || s.dropped {
		m.drop(s)
	}
}

// Authenticate implements recipes.SASL. If the KDC refuses the client or does not know the server, the error wraps
// zk.ErrAuthFailed. gokrb5 waits for a KDC for 5 s at most, whatever ctx is, by UDP and by TCP: set udp_preference_limit = 1 in
// krb5.conf to use TCP only.
func (m *Mechanism) Authenticate(ctx context.Context, host string, exchange func(token []byte) (answer []byte, err error)) error {
	principal := m.principal
	if principal == "" {
		principal = "zookeeper/" + host
	}
	s, err := m.use()
	if err == nil {
		err = s.authenticate(ctx, principal, exchange)
		m.unuse(s, err != nil)
	}
	if err != nil {
		return fmt.Errorf("GSSAPI, server %s: %w", principal, err)
	}
	return nil
}

func (s *source) authenticate(ctx context.Context, principal string, exchange func([]byte) ([]byte, error)) error {
	ticket, key, err := s.GetServiceTicket(principal)
	if err != nil {
		return refusal(err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	n, err := begin(s.Credentials, ticket, key)
	if err != nil {
		return err
	}
	return n.run(exchange)
}

// refusal adds zk.ErrAuthFailed to the error of a request that the KDC, or the client's own credentials, do not allow. The
// KDC may be reachable later.
func refusal(err error) error {
	var failed krberror.Krberror
	if errors.As(err, &failed) && failed.RootCause != krberror.NetworkingError {
		return fmt.Errorf("%w: %w", zk.ErrAuthFailed, err)
	}
	return err
}

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
	"github.com/jcmturner/gokrb5/v8/messages"
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
		conf.LibDefaults.RenewLifetime = 0 // the keytab allows another login: gokrb5 would ask for a renewal while another call asks the KDC
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

	mu      sync.Mutex // guards what follows
	current *source    // nil before the first login, and after one that failed, or whose tickets were refused
	closed  bool
}

// A source is a client of gokrb5 that is logged in, or about to. It is destroyed when it is dropped and no call uses it:
// gokrb5 does not allow Destroy during a call.
type source struct {
	*client.Client
	asking   chan struct{} // holds one element while a call asks the KDC: gokrb5 does not allow that of two at a time
	replaces *source       // the one that it replaces once it has a ticket; nil if it is or was the current one

	// Guarded by the Mechanism's mu.
	uses    int
	works   bool // it had a ticket
	unsure  bool // it could not reach the KDC since: its files may have been replaced
	dropped bool
}

var _ recipes.SASL = (*Mechanism)(nil)

// New returns the mechanism of a client that logs in by login, which is called at the first connection, and again after a
// login that failed, or if the KDC or a server has refused a ticket. It requests a ticket for each server once and keeps it, and its login, until they expire: most connections need no
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

// use returns a source for the server of that principal, for the caller to return to unuse. If the current one has no ticket for it, and could
// not reach the KDC, it logs in anew, with the files as they are now. The tickets of the current source stay in use in the meantime.
func (m *Mechanism) use(principal string) (*source, error) {
	for {
		s, unsure, err := m.take()
		if err != nil {
			return nil, err
		}
		if s != nil {
			if !unsure {
				return s, nil
			}
			if _, _, found := s.GetCachedTicket(principal); found {
				return s, nil
			}
			m.unuse(s, nil)
		}
		made, err := m.login()
		if err != nil {
			return nil, err
		}
		if next := (&source{Client: made, asking: make(chan struct{}, 1), replaces: s}); m.adopt(next) {
			return next, nil
		}
	}
}

// take begins a use of the current source, nil if there is none, and reports whether it could not reach the KDC.
func (m *Mechanism) take() (s *source, unsure bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, false, errors.New("mechanism is closed")
	case m.current == nil:
		return nil, false, nil
	}
	m.current.uses++
	return m.current, m.current.unsure, nil
}

// adopt begins the first use of a new source. It reports false, and destroys the source, if another call was faster.
func (m *Mechanism) adopt(s *source) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.current != s.replaces {
		s.Destroy()
		return false
	}
	if s.replaces == nil {
		m.current = s
	}
	s.uses++
	return true
}

// unuse ends a use, which failed if err is not nil. The source is dropped if its tickets, or the key in its keytab, may be those that the
// servers or the KDC have replaced, or if it never had a ticket: its files may be replaced. It is kept if only a server or the KDC could not be
// reached in time: its tickets may be all that there is until a KDC is back.
func (m *Mechanism) unuse(s *source, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.uses--
	unreached := (*unreachedError)(nil)
	isUnreached := errors.As(err, &unreached)
	if isUnreached && unreached.party == kdc {
		s.unsure = true
	}
	keep := err == nil || isUnreached && (s.works || unreached.party == otherCall)
	if old := s.replaces; old != nil && keep && s.works && m.current == old && !m.closed {
		s.replaces = nil
		m.drop(old)
		m.current = s
	}
	if !keep || s.replaces != nil || s.dropped {
		m.drop(s)
	}
}

// gotTicket records that the source has a ticket.
func (m *Mechanism) gotTicket(s *source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.works = true
}

// An unreachedError is the error of an exchange in which nothing was refused, with who could not be reached.
type unreachedError struct {
	error
	party party
}

func (e *unreachedError) Unwrap() error { return e.error }

type party int

const (
	server party = iota
	kdc
	otherCall // that asks the KDC
)

// Authenticate implements recipes.SASL. If the KDC refuses the client or does not know the server, the error wraps
// zk.ErrAuthFailed. gokrb5 waits for a KDC for 5 s at most, whatever ctx is, by UDP and by TCP: set udp_preference_limit = 1 in
// krb5.conf to use TCP only.
func (m *Mechanism) Authenticate(ctx context.Context, host string, exchange func(token []byte) (answer []byte, err error)) error {
	principal := m.principal
	if principal == "" {
		principal = "zookeeper/" + host
	}
	s, err := m.use(principal)
	if err == nil {
		err = m.authenticate(ctx, s, principal, exchange)
		m.unuse(s, err)
	}
	if err != nil {
		return fmt.Errorf("GSSAPI, server %s: %w", principal, err)
	}
	return nil
}

func (m *Mechanism) authenticate(ctx context.Context, s *source, principal string, exchange func([]byte) ([]byte, error)) error {
	ticket, key, err := s.ticket(ctx, principal)
	if err != nil {
		return err
	}
	m.gotTicket(s)
	if ctx.Err() != nil {
		return &unreachedError{ctx.Err(), server} // the next call finds the ticket
	}
	n, err := begin(s.Credentials, ticket, key)
	if err != nil {
		return err
	}
	return n.run(func(token []byte) ([]byte, error) {
		answer, err := exchange(token)
		if err != nil && !errors.Is(err, zk.ErrAuthFailed) {
			err = &unreachedError{err, server}
		}
		return answer, err
	})
}

// ticket returns a ticket for a server, and asks the KDC if there is none.
func (s *source) ticket(ctx context.Context, principal string) (messages.Ticket, types.EncryptionKey, error) {
	if ticket, key, found := s.GetCachedTicket(principal); found {
		return ticket, key, nil
	}
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return messages.Ticket{}, types.EncryptionKey{}, &unreachedError{fmt.Errorf("another call asks the KDC: %w", ctx.Err()), otherCall}
	}
	ticket, key, err := s.GetServiceTicket(principal)
	return ticket, key, refusal(err)
}

// refusal adds zk.ErrAuthFailed to the error of a request that the KDC, or the client's own credentials, do not allow. The
// KDC may be reachable later.
func refusal(err error) error {
	var failed krberror.Krberror
	switch {
	case !errors.As(err, &failed):
		return err
	case failed.RootCause == krberror.NetworkingError:
		return &unreachedError{err, kdc}
	}
	return fmt.Errorf("%w: %w", zk.ErrAuthFailed, err)
}

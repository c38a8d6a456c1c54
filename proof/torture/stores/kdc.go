// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// Realm is the realm of every KDC.
const Realm = "EXAMPLE.ORG"

// A Kerberos is a key distribution center (KDC) of MIT's Kerberos.
type Kerberos struct{ *Server }

// RunKerberos starts a KDC without principals. The caller must Close it.
func RunKerberos(ctx context.Context) (*Kerberos, error) {
	var programs []string
	for _, name := range []string{"krb5kdc", "kdb5_util", "kadmin.local"} {
		program, err := find(name)
		if err != nil {
			return nil, fmt.Errorf("start kerberos: %w", err)
		}
		programs = append(programs, program)
	}
	s, err := prepared("kerberos")
	if err != nil {
		return nil, fmt.Errorf("start kerberos: %w", err)
	}
	k := &Kerberos{s}
	s.argv = k.inRealm(programs[0], "-n")
	s.ready = s.accepts
	err = errors.Join(
		os.WriteFile(k.Config(), []byte("[libdefaults]\n default_realm = "+Realm+"\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"+
			" udp_preference_limit = 1\n[realms]\n "+Realm+" = {\n  kdc = "+s.Addr+"\n }\n"), 0o644),
		os.WriteFile(k.file("kdc.conf"), []byte("[kdcdefaults]\n kdc_listen = "+s.Addr+"\n kdc_tcp_listen = "+s.Addr+
			"\n[realms]\n "+Realm+" = {\n  database_name = "+k.file("data/principal")+"\n  key_stash_file = "+k.file("data/stash")+
			"\n  acl_file = "+k.file("data/acl")+"\n }\n"), 0o644),
	)
	if err == nil {
		err = s.command(ctx, k.inRealm(programs[1], "create", "-s", "-P", "master")...)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start kerberos: %w", err), s.Close())
	}
	return first(ctx, k)
}

// StartKerberos is RunKerberos for tests. It fails tb on error, or skips it if Kerberos is not installed, and closes the KDC when tb ends.
func StartKerberos(tb testing.TB) *Kerberos {
	tb.Helper()
	k, err := RunKerberos(tb.Context())
	return started(tb, k, err)
}

func (k *Kerberos) file(name string) string { return filepath.Join(k.dir, name) }

// Config returns the path of a krb5.conf for clients and servers.
func (k *Kerberos) Config() string { return k.file("krb5.conf") }

// inRealm returns a command with the configuration of the realm.
func (k *Kerberos) inRealm(argv ...string) []string {
	return append([]string{"/usr/bin/env", "KRB5_CONFIG=" + k.Config(), "KRB5_KDC_PROFILE=" + k.file("kdc.conf")}, argv...)
}

// Keytab gives a principal a new key, and returns a keytab with it. It creates the principal if there is none.
func (k *Kerberos) Keytab(ctx context.Context, principal string) ([]byte, error) {
	admin, err := find("kadmin.local")
	if err != nil {
		return nil, err
	}
	file := k.file("data/keytab")
	if err := os.RemoveAll(file); err != nil {
		return nil, err
	}
	// The first fails if the principal exists, of which kadmin.local does not inform in its status.
	for _, query := range []string{"addprinc -randkey " + principal, "ktadd -k " + file + " " + principal} {
		if err := k.command(ctx, k.inRealm(admin, "-q", query)...); err != nil {
			return nil, fmt.Errorf("keytab of %s: %w", principal, err)
		}
	}
	return os.ReadFile(file)
}

// accepts returns nil if the server accepts connections.
func (s *Server) accepts(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

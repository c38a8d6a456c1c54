// SPDX-License-Identifier: Apache-2.0

package secured

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/recipes/kerberos"
)

const kerberosJAAS = `Server {
  com.sun.security.auth.module.Krb5LoginModule required
  useKeyTab=true keyTab="{files}/zookeeper.keytab" storeKey=true isInitiator=false
  principal="zookeeper/zookeeper.example.org@EXAMPLE.ORG";
};
`

// A realm is a KDC, and a server of its realm.
type realm struct {
	*server
	kdc *stores.Kerberos
}

func startRealm(t *testing.T) *realm {
	t.Helper()
	t.Helper()
	r := &realm{kdc: stores.StartKerberos(t)}
	keytab, err := r.kdc.Keytab(t.Context(), "zookeeper/"+serverName)
	require.NoError(t, err)
	config, err := os.ReadFile(r.kdc.Config())
	require.NoError(t, err)
	r.server = start(t, kerberosJAAS, map[string][]byte{"zookeeper.keytab": keytab, "krb5.conf": config},
		map[string]string{"java.security.krb5.conf": "{files}/krb5.conf"})
	return r
}

// keytab writes a keytab with a new key of a principal to a file.
func (r *realm) keytab(t *testing.T, file, principal string) {
	t.Helper()
	t.Helper()
	keytab, err := r.kdc.Keytab(t.Context(), principal)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, keytab, 0o600))
}

// mechanism returns the mechanism of a principal.
func (r *realm) mechanism(t *testing.T, file, principal string) *kerberos.Mechanism {
	t.Helper()
	t.Helper()
	m := kerberos.New(kerberos.Keytab(r.kdc.Config(), file, principal), &kerberos.Options{Principal: "zookeeper/" + serverName})
	t.Cleanup(m.Close)
	return m
}

func TestPrincipalsOfKerberosLogIn(t *testing.T) {
	t.Parallel() // mostly the tests wait
	r := startRealm(t)
	file := filepath.Join(t.TempDir(), "worker.keytab")
	const principal = "worker/host1@EXAMPLE.ORG"
	r.keytab(t, file, principal)

	t.Run("lock is held across connections", func(t *testing.T) {
		acl := []zk.ACL{{Scheme: "sasl", ID: principal, Perms: zk.PermAll}}
		r.requireHeldAcrossConnections(r.plain, recipes.Options{SASL: r.mechanism(t, file, principal), ACL: acl})
		r.requireHeldAcrossConnections(r.secure, recipes.Options{
			SASL: r.mechanism(t, file, principal), TLS: r.tls(r.authority), ACL: acl,
		})
	})
	t.Run("principal that the KDC does not know is an immediate error", func(t *testing.T) {
		_, err := r.connect(r.plain, recipes.Options{SASL: r.mechanism(t, file, "nobody@EXAMPLE.ORG")})
		require.ErrorIs(t, err, zk.ErrAuthFailed)
		require.ErrorContains(t, err, "SASL: GSSAPI, server zookeeper/"+serverName)
	})
	t.Run("server that the KDC does not know is an immediate error", func(t *testing.T) {
		m := kerberos.New(kerberos.Keytab(r.kdc.Config(), file, principal), nil)
		t.Cleanup(m.Close)
		_, err := r.connect(r.plain, recipes.Options{SASL: m})
		require.ErrorIs(t, err, zk.ErrAuthFailed)
		require.ErrorContains(t, err, "GSSAPI, server zookeeper/")
	})
	t.Run("mechanism of another kind is an immediate error", func(t *testing.T) {
		_, err := r.connect(r.plain, recipes.Options{SASL: recipes.DigestMD5("worker", "secret")})
		require.ErrorIs(t, err, zk.ErrAuthFailed)
	})
	t.Run("keytab that is replaced is read again", func(t *testing.T) {
		const principal = "rotated@EXAMPLE.ORG"
		file := filepath.Join(t.TempDir(), "rotated.keytab")
		r.keytab(t, file, principal)
		m := r.mechanism(t, file, principal)
		_, err := r.kdc.Keytab(t.Context(), principal) // the key in the file is now an old one
		require.NoError(t, err)
		_, err = r.connect(r.plain, recipes.Options{SASL: m})
		require.ErrorIs(t, err, zk.ErrAuthFailed)
		r.keytab(t, file, principal)
		_, err = r.connect(r.plain, recipes.Options{SASL: m})
		require.NoError(t, err)
	})
	t.Run("ticket outlasts the KDC", func(t *testing.T) {
		var n network
		client, err := r.connect(r.plain, recipes.Options{SASL: r.mechanism(t, file, principal), Dial: n.dial})
		require.NoError(t, err)
		hold, err := r.lock(client, "/outlasts")
		require.NoError(t, err)
		require.NoError(t, r.kdc.Kill(t.Context()))
		n.reset()
		require.NoError(t, hold.Check(t.Context()))

		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err = recipes.Connect(ctx, []string{r.plain}, &recipes.Options{SASL: r.mechanism(t, file, principal)})
		require.ErrorIs(t, err, context.DeadlineExceeded, "an unreachable KDC is not a refusal")
		require.ErrorContains(t, err, "GSSAPI")
		require.NotErrorIs(t, err, zk.ErrAuthFailed)
		require.NoError(t, r.kdc.Start(t.Context()))
		require.NoError(t, hold.Unlock(t.Context()))
	})
}

// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/testcert"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestCommandOutlivesItsReplica(t *testing.T) {
	t.Parallel()
	s := withCommand(t)
	locks := s.service()
	first, second := locks.start(), locks.start()
	p := s.launch(append(append([]string{"run"}, first.access(second)...), "--ttl", "9s", "--lock", "team/orders", "--", "sh", "-c", "echo holds; read line; exit 7")...)
	s.line(p, "holds")
	first.renews(1)
	require.NoError(t, first.process.Signal(syscall.SIGKILL))
	require.Error(t, first.process.Wait())
	second.renews(4) // which takes longer than the TTL
	_, err := s.Mutex(s.Connect(recipes.Options{}), orders).TryLock(s.Ctx)
	require.ErrorIs(t, err, lock.ErrLocked)
	require.NoError(t, p.Send("go on"))
	require.Equal(t, 7, s.status(p))
	require.Equal(t, "holds\n", p.Output(), "the command noticed nothing")
	require.Empty(t, s.Nodes(orders), "the lease was released at the second replica")
	second.stop()
}

// docs/service.md has the same steps.
func TestCommandOutlivesRotationOfKeysAndBearerTokens(t *testing.T) {
	t.Parallel()
	s := withCommand(t)
	locks := s.service()
	r := locks.start()
	p := s.launch(append(append([]string{"run"}, r.access()...), "--ttl", "12s", "--lock", "team/orders", "--", "sh", "-c", "echo holds; read line; exit 7")...)
	s.line(p, "holds")
	old, next := strings.Repeat("c0", 32), strings.Repeat("d1", 32)
	change := func(keys string, tokens ...string) {
		locks.reloads(func() {
			locks.write(locks.keys, keys)
			locks.admit(tokens...)
		}, r)
	}
	change(old+"\n"+next, "one", "two")
	change(next+"\n"+old, "two", "one")
	locks.write(locks.token, "two")
	r.renews(2) // the first may have begun before
	change(next, "two")
	r.renews(2)
	require.Zero(t, r.logged(`"action":"renew"`, `"code"`), "no renewal was refused")
	require.NoError(t, p.Send("go on"))
	require.Equal(t, 7, s.status(p))
	require.Equal(t, "holds\n", p.Output())
	r.stop()
}

// certificate issues a certificate for 127.0.0.1, and writes it with its key to one file and the certificate of its
// authority to another.
func certificate(t *testing.T) (cert tls.Certificate, file, ca string) {
	t.Helper()
	authority := testcert.NewAuthority(t)
	cert = authority.Issue("team", "127.0.0.1")
	folder := t.TempDir()
	file, ca = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "ca.pem")
	require.NoError(t, os.WriteFile(file, testcert.PEM(t, cert), 0o600))
	require.NoError(t, os.WriteFile(ca, authority.PEM(), 0o600))
	return cert, file, ca
}

func TestCommandPresentsItsCertificate(t *testing.T) {
	t.Parallel()
	s := withCommand(t)
	locks := s.service()
	_, file, ca := certificate(t)
	locks.certificate, locks.key, locks.clientCA = file, file, ca
	r := locks.start()
	args := []string{"run", "--url", r.url, "--ca", ca, "--lock", "team/orders"}
	refused := s.launch(append(args, "--", "true")...)
	require.Equal(t, 70, s.status(refused))
	require.Contains(t, refused.Output(), "UNAUTHENTICATED")
	p := s.launch(append(args, "--cert", file, "--key", file, "--", "true")...)
	require.Equal(t, 0, s.status(p), p.Output())
}

func TestCommandsConnectToServersWithTLS(t *testing.T) {
	t.Parallel()
	s := withCommand(t)
	cert, _, ca := certificate(t)
	at := []string{"--servers", s.terminator(s.ensemble.Servers()[0], cert), "--ca", ca}
	p := s.launch(append(append([]string{"run"}, at...), "--lock", s.Path("ledger"), "--", "true")...)
	require.Equal(t, 0, s.status(p), p.Output())
	out, err := s.lockkeeper(append(append([]string{"doctor"}, at...), s.Root)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "no problems")

	locks := s.service()
	r := s.launch("serve", "--listen", "127.0.0.1:0", "--root", s.Path("locks"), "--principals", locks.principals, "--token-keys", locks.keys,
		"--servers", at[1], "--zookeeper-ca", ca)
	url := strings.TrimPrefix(s.line(r, "export LOCKKEEPER_URL="), "export LOCKKEEPER_URL=")
	p = s.launch("run", "--url", url, "--token-file", locks.token, "--lock", "team/orders", "--", "true")
	require.Equal(t, 0, s.status(p), p.Output())
	s.interrupt(r) // its session ends with it
	require.Equal(t, 0, s.status(r), r.Output())
}

func TestCommandsPresentTheirCredential(t *testing.T) {
	t.Parallel()
	s := withCommand(t)
	require.NoError(t, s.ZK.AddAuth("digest", []byte("alice:secret")))
	_, err := s.ZK.Create(s.Path("ours"), nil, 0, zk.DigestACL(zk.PermAll, "alice", "secret"))
	require.NoError(t, err)
	refused := s.launch(s.on("run", "--lock", s.Path("ours/ledger"), "--", "true")...)
	require.Equal(t, 70, s.status(refused))
	require.Contains(t, refused.Output(), "not authenticated")

	file := filepath.Join(t.TempDir(), "auth")
	require.NoError(t, os.WriteFile(file, []byte("alice:secret\n"), 0o600))
	p := s.launch(s.on("run", "--auth-file", file, "--lock", s.Path("ours/ledger"), "--", "lockkeeper", "ls", "--servers", s.servers(), "--auth-file", file, s.Path("ours"))...)
	require.Equal(t, 0, s.status(p), p.Output())
	require.Contains(t, p.Output(), s.Path("ours/ledger")+" ")
}

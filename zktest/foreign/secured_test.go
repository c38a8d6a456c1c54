// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/testcert"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestKazooAndOursExcludeEachOtherWhereBothMustLogIn(t *testing.T) {
	authority := testcert.NewAuthority(t)
	ensemble := zktest.Start(t, &zktest.Options{
		TLS:   &tls.Config{Certificates: []tls.Certificate{authority.Issue("server", "127.0.0.1")}},
		Users: map[string]string{"kazoo": "secret of Kazoo", "ours": "our secret"}, RequireSASL: true,
	})
	s := &server{addresses: ensemble.Addrs(), root: freshRoot(), ensemble: ensemble}
	file := filepath.Join(t.TempDir(), "authority.pem")
	require.NoError(t, os.WriteFile(file, authority.PEM(), 0o600))
	path := s.root + "/lock"
	kazoo := rival{Process: python(t, "kazoo_contend.py", "lock", s.list(), path, "kazoo", "secret of Kazoo", file)}
	client, err := recipes.Connect(bounded(t), s.addresses, &recipes.Options{
		TLS: &tls.Config{RootCAs: authority.Pool()}, SASL: recipes.DigestMD5("ours", "our secret"), Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	mu, err := lock.New(client, path, nil)
	require.NoError(t, err)

	kazoo.startAcquire()
	kazoo.awaitAcquired()
	_, err = mu.TryLock(bounded(t))
	require.ErrorIs(t, err, lock.ErrLocked)

	server := ensemble.Server(1)
	require.NoError(t, server.Kill(t.Context()))
	require.NoError(t, server.Start(t.Context()))
	_, err = mu.TryLock(bounded(t))
	require.ErrorIs(t, err, lock.ErrLocked, "the sessions continue")

	kazoo.release() // it has logged in again
	hold, err := mu.Lock(bounded(t))
	require.NoError(t, err)
	kazoo.requireBusy(t)
	require.NoError(t, hold.Unlock(bounded(t)))
	kazoo.Close()
}

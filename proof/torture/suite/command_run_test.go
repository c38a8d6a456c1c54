// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestRunExitsWithTheStatusOfItsCommandOnServersAndService(t *testing.T) {
	t.Parallel()
	s := withCommand(t)
	for _, at := range s.sites() {
		for _, kind := range []string{"--lock", "--elect"} {
			for script, want := range map[string]int{"exit 0": 0, "exit 3": 3, "kill -TERM $$": 143} {
				p := s.run(at, kind, at.path, "--", "sh", "-c", script)
				require.Equal(t, want, s.status(p), "%s %s", at.name, kind)
				require.Empty(t, p.Output())
				require.Empty(t, s.Nodes(at.node), "the hold was released")
			}
		}
		require.Equal(t, 127, s.status(s.run(at, "--lock", at.path, "--", "missing-command")), at.name)
		require.Equal(t, 64, s.status(s.run(at, "--lock", at.path, "--try", "--wait", "1s", "--", "true")), at.name)
	}
}

func TestRunGivesItsCommandTheTokenOfTheNode(t *testing.T) {
	t.Parallel()
	s := withCommand(t)
	for _, at := range s.sites() {
		p := s.run(at, "--lock", at.path, "--owner", "db7", "--", "sh", "-c", `echo "got $LOCKKEEPER_TOKEN $LOCKKEEPER_OWNER $LOCKKEEPER_PATH"; read line; exit 5`)
		got := strings.Fields(s.line(p, "got "))
		nodes := s.Nodes(at.node)
		require.Len(t, nodes, 1)
		require.Equal(t, fmt.Sprint(s.Stat(s.Path(at.node)+"/"+nodes[0]).Czxid), got[1], "its token is the czxid of its node")
		require.Equal(t, "db7", got[2])
		require.True(t, strings.HasSuffix(got[3], at.path))

		for _, args := range []string{"--lock PATH --try", "--lock PATH --wait 300ms", "--elect PATH --wait 300ms"} {
			refused := s.run(at, append(strings.Fields(strings.ReplaceAll(args, "PATH", at.path)), "--", "echo", "ran")...)
			require.Equal(t, 1, s.status(refused), "%s %s", at.name, args)
			require.NotContains(t, refused.Output(), "ran\n")
			s.Waiting(at.node, 1)
		}
		require.NoError(t, p.Send("go on"))
		require.Equal(t, 5, s.status(p))
	}
}

// The path of the connections is partitioned: neither side hears of the other.
func TestPartitionedCommandIsKilledWithItsChildBeforeTheLockIsGranted(t *testing.T) {
	t.Parallel()
	t.Run("servers", func(t *testing.T) {
		t.Parallel()
		s := withCommand(t)
		proxy := s.proxy(s.ensemble.Servers()[0])
		s.requireKilledBeforeGrant(proxy, "ledger", "--servers", proxy.Addr(), "--namespace", s.Root, "--session-timeout", "4s", "--lock", "/ledger")
	})
	t.Run("service", func(t *testing.T) {
		t.Parallel()
		s := withCommand(t)
		locks := s.service()
		r := locks.start()
		proxy, err := docker.NewProxy(strings.TrimPrefix(r.url, "http://"))
		require.NoError(t, err)
		s.proxies = append(s.proxies, proxy)
		// The lock is granted TTL/32 after the end of the lease: that is what a busy machine may take to send SIGKILL.
		s.requireKilledBeforeGrant(proxy, orders, "--url", "http://"+proxy.Addr(), "--token-file", locks.token, "--ttl", "20s", "--lock", "team/orders")
		r.stop()
	})
}

// requireKilledBeforeGrant runs a stubborn command behind a proxy, breaks that, and requires that the command's processes have
// ended when the library is granted the lock at node.
func (s *env) requireKilledBeforeGrant(proxy *docker.Proxy, node string, args ...string) {
	s.T.Helper()
	p := s.launch(append(append([]string{"run"}, args...), stubborn...)...)
	s.line(p, "child ")
	next := s.Locking(s.Ctx, s.Mutex(s.Connect(recipes.Options{}), node))
	s.Waiting(node, 2)
	proxy.Drop(docker.Both)
	hold := next.Granted()
	require.Equal(s.T, 75, s.status(p))
	require.Contains(s.T, p.Output(), "the command gets SIGTERM, and SIGKILL in ")
	require.Contains(s.T, p.Output(), "the command ended with status 137")
	last := s.lastPrinted(p)
	require.Less(s.T, reacted(last), next.At)
	s.T.Logf("the last process ended %v before the grant", next.At.Sub(last).Round(time.Millisecond))
	s.Unlock(hold)
}

func TestCommandOfExpiredSessionGetsTERM(t *testing.T) {
	t.Parallel()
	s := withCommand(t)
	for _, kind := range []string{"--lock", "--elect"} {
		p := s.launch(s.on("run", kind, s.Path("ledger"), "--", "sh", "-c", `trap 'echo stopped cleanly; exit 0' TERM; echo ready; while :; do sleep 0.01; done`)...)
		s.line(p, "ready")
		var shown shown
		s.readJSON(&shown, "show", s.Path("ledger"))
		var session int64
		_, err := fmt.Sscanf(shown.Holder.Session, "0x%x", &session)
		require.NoError(t, err)
		require.NoError(t, s.ensemble.Expire(s.Ctx, session))
		s.line(p, "stopped cleanly")
		require.Equal(t, 75, s.status(p))
		require.Contains(t, p.Output(), "session expired (reported by the server)")
		s.Waiting("ledger", 0)
	}
}

func TestRunWithoutServersOrServiceExitsWithStatus69(t *testing.T) {
	t.Parallel()
	s := withCommand(t)
	for _, args := range []string{"--servers 127.0.0.1:1 --lock /ledger", "--url http://127.0.0.1:1 --lock team/orders"} {
		p := s.launch(append(append([]string{"run", "--connect-timeout", "300ms"}, strings.Fields(args)...), "--", "true")...)
		require.Equal(t, 69, s.status(p), args)
		require.Contains(t, p.Output(), "127.0.0.1:1")
	}
}

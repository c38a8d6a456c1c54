// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guard_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/internal/testcert"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/recipes/guard"
	"github.com/lockkeeper/lockkeeper/zktest"
)

var (
	_ recipes.Guard = (*guard.Guard)(nil)

	kills   = flag.Int("guard.kills", 0, "kill a holder this many times on the servers of ZK_SERVERS, and print the times to the next grant")
	session = flag.Duration("guard.timeout", 10*time.Second, "with -guard.kills, the session timeout to request")
)

// Variables that change how TestMain calls guard.Main: not at all, or with a dial function for TLS.
const (
	withoutMain = "LOCKKEEPER_TEST_WITHOUT_MAIN"
	withTLS     = "LOCKKEEPER_TEST_WITH_TLS"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(withoutMain) != "":
	case os.Getenv(withTLS) != "":
		guard.Main((&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext)
	default:
		guard.Main(nil)
	}
	child.Main()
	os.Exit(m.Run())
}

// A task is that of a holder.
type task struct {
	Servers []string
	Socket  string // of the guardian; "": it starts one
	Clients int    // each holds the lock /l/0, /l/1, …
	Timeout time.Duration
}

// holder takes locks, and holds them until it dies.
var holder = child.New("holder", func(t task) error {
	ctx := context.Background()
	g, err := connectGuard(ctx, t.Socket)
	if err != nil {
		return err
	}
	for i := range t.Clients {
		client, err := recipes.Connect(ctx, t.Servers, &recipes.Options{SessionTimeout: t.Timeout, Guard: g})
		if err != nil {
			return err
		}
		mu, err := lock.New(client, fmt.Sprintf("/l/%d", i), nil)
		if err != nil {
			return err
		}
		if _, err := mu.Lock(ctx); err != nil {
			return err
		}
	}
	fmt.Println("held")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		switch lines.Text() {
		case "exit":
			os.Exit(7) // without Close
		case "panic":
			panic("requested")
		}
	}
	return nil
})

func connectGuard(ctx context.Context, socket string) (*guard.Guard, error) {
	if socket != "" {
		return guard.Dial(ctx, socket)
	}
	return guard.Start(ctx)
}

// hold starts a holder, and returns once it holds its locks.
func hold(t *testing.T, task task) *child.Process {
	t.Helper()
	if task.Clients == 0 {
		task.Clients = 1
	}
	if task.Timeout == 0 {
		task.Timeout = 20 * time.Second
	}
	p, err := child.Start(t, holder.Command(t.Context(), task))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = p.Await(ctx, "held")
	require.NoError(t, err)
	return p
}

// An expiry is a session that the ensemble has ended by itself.
type expiries struct {
	mu  sync.Mutex // guards what follows
	ids []int64
}

func (e *expiries) list() []int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.ids)
}

// start starts an ensemble, whose expiries are recorded.
func start(t *testing.T, opts zktest.Options) (*zktest.Ensemble, *expiries) {
	t.Helper()
	expired := &expiries{}
	opts.Tick = 2 * time.Second
	opts.OnCommit = func(c zktest.Commit) {
		if c.Op == "closeSession" && c.Expired {
			expired.mu.Lock()
			defer expired.mu.Unlock()
			expired.ids = append(expired.ids, c.Session)
		}
	}
	return zktest.Start(t, &opts), expired
}

// connect returns a client that is not guarded.
func connect(t *testing.T, servers []string) *recipes.Client {
	t.Helper()
	client, err := recipes.Connect(t.Context(), servers, &recipes.Options{SessionTimeout: 20 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// lockAll takes the locks of a holder with that many clients.
func lockAll(t *testing.T, client *recipes.Client, n int) {
	t.Helper()
	for i := range n {
		mu, err := lock.New(client, fmt.Sprintf("/l/%d", i), nil)
		require.NoError(t, err)
		hold, err := mu.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, hold.Unlock(t.Context()))
	}
}

// serve starts a guardian in this process, as a sidecar is in another one.
func serve(t *testing.T) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "guard")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- guard.Serve(ctx, l, nil) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	return socket
}

func TestNextContenderIsGrantedTheLockOfDeadProcessWithoutExpiry(t *testing.T) {
	for _, servers := range []int{1, 3} {
		ensemble, expired := start(t, zktest.Options{Servers: servers})
		client := connect(t, ensemble.Addrs())
		for _, socket := range []string{"", serve(t)} {
			for _, end := range []string{"kill", "exit", "panic"} {
				p := hold(t, task{Servers: ensemble.Addrs(), Socket: socket})
				if end == "kill" {
					p.Kill()
				} else {
					require.NoError(t, p.Send(end))
				}
				lockAll(t, client, 1)
			}
		}
		require.Empty(t, expired.list())
	}
}

func TestOneGuardianClosesTheSessionsOfManyClients(t *testing.T) {
	const clients = 64
	ensemble, expired := start(t, zktest.Options{Servers: 3})
	p := hold(t, task{Servers: ensemble.Addrs(), Clients: clients, Timeout: 40 * time.Second}) // the guardian has T/2 for all
	p.Kill()
	lockAll(t, connect(t, ensemble.Addrs()), clients)
	require.Empty(t, expired.list())
	require.Len(t, ensemble.Sessions(), 1)
}

func TestSessionOfHungServerIsHandedOver(t *testing.T) {
	ensemble, expired := start(t, zktest.Options{Servers: 3})
	followers, err := ensemble.Followers(t.Context())
	require.NoError(t, err)
	hung := followers[0]
	p := hold(t, task{Servers: []string{hung.Addr(), ensemble.Server(1).Addr()}})
	client := connect(t, []string{ensemble.Server(1).Addr()})
	require.NoError(t, hung.Pause(t.Context()))
	p.Kill()
	lockAll(t, client, 1)
	require.Empty(t, expired.list())
}

func TestGuardWithoutMainStartsNothing(t *testing.T) {
	cmd := holder.Command(t.Context(), task{Clients: 1})
	cmd.Env = append(cmd.Env, withoutMain+"=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, "guard.Main was not called: it must be the first line of main, or the child would run this program again\n", string(out))
}

func TestConnectFailsIfGuardianCannotCloseSessions(t *testing.T) {
	g, err := guard.Start(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close()) }()
	_, err = guard.Start(t.Context())
	require.ErrorContains(t, err, "this process has a guardian")

	keeper, _ := start(t, zktest.Options{Personality: zktest.Keeper})
	_, err = recipes.Connect(t.Context(), keeper.Addrs(), &recipes.Options{Guard: g})
	require.ErrorContains(t, err, "the server opened another session in place of the one that was presented")

	users := map[string]string{"app": "secret"}
	sasl, _ := start(t, zktest.Options{Users: users, RequireSASL: true})
	_, err = recipes.Connect(t.Context(), sasl.Addrs(), &recipes.Options{Guard: g, SASL: recipes.DigestMD5("app", "secret")})
	require.ErrorContains(t, err, "it requires a login by SASL")
}

func TestServersWithTLSNeedItsDialFunctionInMain(t *testing.T) {
	authority := testcert.NewAuthority(t)
	ensemble, _ := start(t, zktest.Options{TLS: &tls.Config{Certificates: []tls.Certificate{authority.Issue("zk", "127.0.0.1")}}})
	connect := func() error {
		g, err := guard.Start(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, g.Close()) }()
		client, err := recipes.Connect(t.Context(), ensemble.Addrs(), &recipes.Options{
			SessionTimeout: 20 * time.Second, Guard: g, TLS: &tls.Config{InsecureSkipVerify: true},
		})
		if err == nil {
			err = client.Close()
		}
		return err
	}
	require.ErrorContains(t, connect(), "guard: rehearsal: open a session")
	t.Setenv(withTLS, "1")
	require.NoError(t, connect())
}

func TestDialNeedsAGuardian(t *testing.T) {
	_, err := guard.Dial(t.Context(), "")
	require.ErrorContains(t, err, "LOCKKEEPER_GUARD is not set")
	_, err = guard.Dial(t.Context(), filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestGuardianHoldsNoStreamOfItsParent(t *testing.T) {
	ensemble, _ := start(t, zktest.Options{})
	p := hold(t, task{Servers: ensemble.Addrs()})
	ensemble.Server(1).Refuse(true) // the guardian tries for T/2
	p.Kill()                        // and waits until no process has the output open
	require.Contains(t, p.Output(), "held")
}

// This test measures, and promises nothing: it is run by -guard.kills.
func TestKilledHoldersHandOverInAFractionOfTheSessionTimeout(t *testing.T) {
	if *kills == 0 {
		t.Skip("run with -guard.kills and ZK_SERVERS")
	}
	servers := strings.Split(os.Getenv("ZK_SERVERS"), ",")
	client := connect(t, servers)
	mu, err := lock.New(client, "/l/0", nil)
	require.NoError(t, err)
	var took []time.Duration
	for range *kills {
		p := hold(t, task{Servers: servers, Timeout: *session})
		granted := make(chan time.Time, 1)
		go func() {
			defer close(granted)
			hold, err := mu.Lock(t.Context())
			if err == nil {
				granted <- time.Now()
				err = hold.Unlock(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		}()
		require.Eventually(t, func() bool {
			nodes, _, err := client.Conn().Children("/l/0")
			return err == nil && len(nodes) == 2
		}, time.Minute, time.Millisecond)
		time.Sleep(10 * time.Millisecond) // the waiter has set its watch
		began := time.Now()
		require.NoError(t, p.Signal(os.Kill))
		took = append(took, (<-granted).Sub(began))
		<-granted    // the waiter has released the lock
		_ = p.Wait() // it was killed
	}
	slices.Sort(took)
	at := func(q float64) string {
		d := took[min(len(took)-1, int(q*float64(len(took))))]
		return fmt.Sprintf("%v (%.4f T)", d.Round(10*time.Microsecond), d.Seconds()/session.Seconds())
	}
	t.Logf("%d kills, T = %v: p50 %s, p90 %s, p99 %s, max %s", len(took), *session, at(.5), at(.9), at(.99), at(1))
	require.Less(t, took[len(took)-1], *session/20)
}

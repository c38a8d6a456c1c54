// SPDX-License-Identifier: Apache-2.0

package historic

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

var etcd = library{name: "etcd `concurrency`", short: "etcd", module: "go.etcd.io/etcd/client/v3", lacks: "etcd"}

var ofEtcd = []bug{
	{
		library: &etcd, number: "11360", report: "https://github.com/etcd-io/etcd/issues/11360",
		wrong:  "A second `Lock` in the holder's session succeeds",
		here:   "the second `Lock` waits",
		theirs: etcdLocksTwice, ours: secondLockOfTheClientWaits,
	},
	{
		library: &etcd, number: "19597", report: "https://github.com/etcd-io/etcd/issues/19597",
		wrong:  "`Campaign` outlives its session, and succeeds without a key",
		here:   "joins again in a new session",
		theirs: etcdCampaignsWithoutSession, ours: candidateJoinsAgain,
	},
	{
		library: &etcd, number: "21128", report: "https://github.com/etcd-io/etcd/issues/21128",
		wrong:  "A failed `Campaign` leaves its key; `Resign` does not delete it",
		here:   "no node stays",
		theirs: etcdCampaignThatFails, ours: failedCampaignLeavesNoNode,
	},
	{
		library: &etcd, number: "22123", report: "https://github.com/etcd-io/etcd/issues/22123",
		wrong:  "A failed `Resign` forgets the key; the next returns nil",
		here:   "resigns although the context is done",
		theirs: etcdResignsTwice, ours: resignResigns,
	},
	{
		library: &etcd, number: "22082", report: "https://github.com/etcd-io/etcd/issues/22082",
		wrong:  "A repeated `Unlock` deletes the key of the session's next holder",
		here:   "each hold has its own node",
		theirs: etcdUnlocksTheNext, ours: unlockSparesTheNext,
	},
}

// The tests share one server, which the first one starts and TestMain closes.
var etcdServer struct {
	once    sync.Once
	cluster *stores.Etcd
	err     error
}

func closeEtcd() error {
	if etcdServer.cluster == nil {
		return nil
	}
	return etcdServer.cluster.Close()
}

// etcdClient returns a client of etcd.
func etcdClient(t *testing.T) *clientv3.Client {
	t.Helper()
	etcdServer.once.Do(func() {
		etcdServer.cluster, etcdServer.err = stores.RunEtcd(context.WithoutCancel(t.Context()), 1, nil)
	})
	if errors.Is(etcdServer.err, stores.ErrNotInstalled) {
		need.Lacking(t, "%v", etcdServer.err)
	}
	require.NoError(t, etcdServer.err)
	client, err := clientv3.New(clientv3.Config{Endpoints: etcdServer.cluster.Addrs(), Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// etcdSession returns a session, which lives as long as the test is scheduled at all.
func etcdSession(t *testing.T, client *clientv3.Client) *concurrency.Session {
	t.Helper()
	session, err := concurrency.NewSession(client, concurrency.WithTTL(60))
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() }) // some tests have ended it
	return session
}

// etcdPath returns the keys' prefix of a test.
func etcdPath(t *testing.T) string {
	t.Helper()
	return "/" + t.Name()
}

// keys returns how many contenders' keys exist.
func keys(t *testing.T, client *clientv3.Client) int {
	t.Helper()
	r, err := client.Get(t.Context(), etcdPath(t)+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	return int(r.Count)
}

func etcdLocksTwice(t *testing.T) {
	session := etcdSession(t, etcdClient(t))
	first, second := concurrency.NewMutex(session, etcdPath(t)), concurrency.NewMutex(session, etcdPath(t))
	require.NoError(t, first.Lock(t.Context()))
	require.NoError(t, first.Lock(t.Context()), "granted although it is held")
	require.NoError(t, second.Lock(t.Context()), "granted although the first one holds it")
}

func secondLockOfTheClientWaits(t *testing.T) {
	bubble(t, func(s servers) {
		client, _ := s.client()
		first, err := lock.New(client, path, nil)
		require.NoError(s, err)
		second, err := lock.New(client, path, nil)
		require.NoError(s, err)
		hold, err := first.Lock(s.Context())
		require.NoError(s, err)
		waiting := []*pending[*lock.Hold]{begin(s.T, first.Lock), begin(s.T, second.Lock)}
		soon()
		require.NoError(s, hold.Check(s.Context()))
		for _, call := range waiting {
			require.False(s, call.over(), "the lock is held")
		}
		require.NoError(s, hold.Unlock(s.Context()))
		soon()
		require.NotEqual(s, waiting[0].over(), waiting[1].over(), "one of them holds it")
		if !waiting[0].over() {
			waiting[0], waiting[1] = waiting[1], waiting[0]
		}
		require.NoError(s, waiting[0].result().Unlock(s.Context()))
		require.NoError(s, waiting[1].result().Unlock(s.Context()))
	})
}

func etcdCampaignsWithoutSession(t *testing.T) {
	client := etcdClient(t)
	leader := concurrency.NewElection(etcdSession(t, client), etcdPath(t))
	require.NoError(t, leader.Campaign(t.Context(), "a"))
	session := etcdSession(t, client)
	candidate := concurrency.NewElection(session, etcdPath(t))
	campaign := beginError(t, func() error { return candidate.Campaign(t.Context(), "b") })
	require.Eventually(t, func() bool { return keys(t, client) == 2 }, time.Minute, time.Millisecond)

	_, err := client.Revoke(t.Context(), session.Lease())
	require.NoError(t, err)
	<-session.Done()
	require.Equal(t, 1, keys(t, client))
	require.False(t, campaign.over(), "it waits without a key")
	require.NoError(t, leader.Resign(t.Context()))
	campaign.result()
	require.Zero(t, keys(t, client), "the election has no leader")
}

func candidateJoinsAgain(t *testing.T) {
	bubble(t, func(s servers) {
		e, _ := s.election()
		leader, err := e.Campaign(s.Context())
		require.NoError(s, err)
		old := s.Sessions()
		candidate, _ := s.election()
		campaign := begin(s.T, candidate.Campaign)
		soon()
		for _, session := range s.Sessions() {
			if session.ID != old[0].ID {
				require.NoError(s, s.Expire(s.Context(), session.ID))
			}
		}
		require.Len(s, s.queue(), 1)
		time.Sleep(2 * timeout)
		require.Len(s, s.queue(), 2, "the candidate has joined again")
		require.False(s, campaign.over())
		require.NoError(s, leader.Resign(s.Context()))
		term := campaign.result()
		require.NoError(s, term.Check(s.Context()))
		require.NoError(s, term.Resign(s.Context()))
	})
}

// compacted is a watcher whose watches fail, as they do when etcd has compacted the revision at which they begin.
type compacted struct{ clientv3.Watcher }

func (compacted) Watch(context.Context, string, ...clientv3.OpOption) clientv3.WatchChan {
	failed := make(chan clientv3.WatchResponse, 1)
	failed <- clientv3.WatchResponse{Canceled: true, CompactRevision: 1}
	close(failed)
	return failed
}

func etcdCampaignThatFails(t *testing.T) {
	client := etcdClient(t)
	leader := concurrency.NewElection(etcdSession(t, client), etcdPath(t))
	require.NoError(t, leader.Campaign(t.Context(), "a"))
	candidate := concurrency.NewElection(etcdSession(t, client), etcdPath(t))
	watcher := client.Watcher
	client.Watcher = compacted{watcher}
	err := candidate.Campaign(t.Context(), "b")
	client.Watcher = watcher
	require.ErrorContains(t, err, "compacted")
	require.NoError(t, candidate.Resign(t.Context()))
	require.Equal(t, 2, keys(t, client), "the candidate's key is still there")
}

func failedCampaignLeavesNoNode(t *testing.T) {
	bubble(t, func(s servers) {
		e, _ := s.election()
		leader, err := e.Campaign(s.Context())
		require.NoError(s, err)
		candidate, link := s.election()
		joined := link.Intercept(zktest.Rule{Op: "create", Below: path})
		refused := link.Intercept(zktest.Rule{When: isWait, Fail: zktest.ErrNoAuth})
		_, err = candidate.Campaign(s.Context())
		require.ErrorIs(s, err, zk.ErrNoAuth)
		require.Positive(s, joined.Fired())
		require.Positive(s, refused.Fired())
		require.Len(s, s.queue(), 1, "only the leader's")
		require.NoError(s, leader.Resign(s.Context()))
	})
}

// isWait selects the reads of a contender that has joined: of the listing, and of other contenders' nodes.
func isWait(r zktest.Request) bool {
	return strings.HasPrefix(r.Op, "getChildren") || (r.Op == "getData" || r.Op == "exists") && strings.HasPrefix(r.Path, path+"/")
}

func etcdResignsTwice(t *testing.T) {
	client := etcdClient(t)
	leader := concurrency.NewElection(etcdSession(t, client), etcdPath(t))
	require.NoError(t, leader.Campaign(t.Context(), "a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, leader.Resign(ctx), context.Canceled)
	require.NoError(t, leader.Resign(t.Context()))
	require.Equal(t, 1, keys(t, client), "it still leads")
}

func resignResigns(t *testing.T) {
	bubble(t, func(s servers) {
		e, _ := s.election()
		leader, err := e.Campaign(s.Context())
		require.NoError(s, err)
		ctx, cancel := context.WithCancel(s.Context())
		cancel()
		require.NoError(s, leader.Resign(ctx))
		require.Empty(s, s.queue())
	})
}

var errLostReply = errors.New("reply lost")

// lossy loses the reply to each delete.
type lossy struct{ clientv3.KV }

func (kv lossy) Delete(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	if _, err := kv.KV.Delete(ctx, key, opts...); err != nil {
		return nil, err
	}
	return nil, errLostReply
}

func etcdUnlocksTheNext(t *testing.T) {
	client := etcdClient(t)
	session := etcdSession(t, client)
	former, holder := concurrency.NewMutex(session, etcdPath(t)), concurrency.NewMutex(session, etcdPath(t))
	require.NoError(t, former.Lock(t.Context()))
	kv := client.KV
	client.KV = lossy{kv}
	err := former.Unlock(t.Context())
	client.KV = kv
	require.ErrorIs(t, err, errLostReply)
	require.NoError(t, holder.Lock(t.Context()))
	require.NoError(t, former.Unlock(t.Context()))
	require.Zero(t, keys(t, client), "the key of the holder is gone")
}

func unlockSparesTheNext(t *testing.T) {
	bubble(t, func(s servers) {
		ours, link := s.mutex()
		former, err := ours.Lock(s.Context())
		require.NoError(s, err)
		lost := link.Intercept(zktest.Rule{Op: "delete", Times: 1, Lose: zktest.ToClient})
		unlocked := former.Unlock(s.Context())
		require.Equal(s, 1, lost.Fired())
		if unlocked != nil {
			require.ErrorIs(s, unlocked, recipes.ErrUncertain)
		}
		holder, err := ours.Lock(s.Context())
		require.NoError(s, err)
		require.Equal(s, unlocked, former.Unlock(s.Context()), "the first result again")
		soon()
		require.NoError(s, holder.Check(s.Context()))
		require.Len(s, s.queue(), 1)
		require.NoError(s, holder.Unlock(s.Context()))
	})
}

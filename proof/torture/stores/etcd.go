// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/docker"
)

// Etcd is a cluster of etcd servers, with etcd's own defaults for all times. As root on Linux, each member has its own
// network namespace, so that it can be partitioned; otherwise they share 127.0.0.1.
type Etcd struct {
	members    []*EtcdMember
	namespaces *docker.Namespaces // nil if they share 127.0.0.1
}

// An EtcdMember is one server of a cluster. Its Start returns when it listens, which can be before it serves.
type EtcdMember struct {
	*Server
	ID int // from 1

	namespaces *docker.Namespaces
	peer       string // host:port
}

// RunEtcd starts a cluster of n members, and returns when all serve. The caller must Close it.
func RunEtcd(ctx context.Context, n int, opts *Options) (_ *Etcd, err error) {
	program, err := find("etcd")
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	c := &Etcd{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start etcd: %w", err), c.Close())
		}
	}()
	if c.namespaces, err = docker.NewNamespaces(ctx, n); err != nil && !errors.Is(err, docker.ErrUnsupported) {
		return nil, err
	}
	var cluster []string
	for id := range n {
		m, err := c.prepare(id + 1)
		if err != nil {
			return nil, err
		}
		c.members = append(c.members, m)
		cluster = append(cluster, fmt.Sprintf("m%d=http://%s", m.ID, m.peer))
	}
	for _, m := range c.members {
		m.argv = nil
		if m.namespaces != nil {
			m.argv = m.namespaces.Enter(m.ID)
		}
		m.argv = append(append(m.argv, program, "--name", fmt.Sprintf("m%d", m.ID), "--data-dir", m.data(),
			"--listen-client-urls", "http://"+m.Addr, "--advertise-client-urls", "http://"+m.Addr,
			"--listen-peer-urls", "http://"+m.peer, "--initial-advertise-peer-urls", "http://"+m.peer,
			"--initial-cluster", strings.Join(cluster, ","), "--initial-cluster-state", "new",
			"--initial-cluster-token", c.members[0].dir, "--logger", "zap"), opts.args()...)
		m.ready = m.listens
		if err := m.Start(ctx); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startBound, fmt.Errorf("not serving after %v", startBound))
	defer cancel()
	return c, c.WaitServing(ctx)
}

// EtcdCluster is RunEtcd for tests. It fails tb on error, or skips it if etcd is not installed, and closes the cluster when tb
// ends.
func EtcdCluster(tb testing.TB, n int, opts *Options) *Etcd {
	tb.Helper()
	c, err := RunEtcd(tb.Context(), n, opts)
	if err != nil {
		unstarted(tb, err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return c
}

func (c *Etcd) prepare(id int) (*EtcdMember, error) {
	s, err := prepared("etcd")
	if err != nil {
		return nil, err
	}
	m := &EtcdMember{Server: s, ID: id, namespaces: c.namespaces}
	if c.namespaces != nil {
		client, peer := c.namespaces.Hosts(id)
		m.Addr, m.peer = client+":2379", peer+":2380"
		m.as = nil // only root can enter a namespace
		return m, s.own(s.data())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	m.peer = l.Addr().String()
	return m, l.Close()
}

// Members returns the cluster's servers.
func (c *Etcd) Members() []*EtcdMember { return slices.Clone(c.members) }

// Addrs returns the members' addresses for clients.
func (c *Etcd) Addrs() []string {
	var addrs []string
	for _, m := range c.members {
		addrs = append(addrs, m.Addr)
	}
	return addrs
}

// WaitServing waits until every member serves, for which each needs a connection to the leader.
func (c *Etcd) WaitServing(ctx context.Context) error {
	for _, m := range c.members {
		if err := m.WaitServing(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Leader returns the member that reports that it leads.
func (c *Etcd) Leader(ctx context.Context) (*EtcdMember, error) {
	var errs []error
	for _, m := range c.members {
		leads, err := m.Leads(ctx)
		if leads {
			return m, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no member of the etcd cluster leads: %w", errors.Join(errs...))
}

// Close kills the members and removes their data.
func (c *Etcd) Close() error {
	var errs []error
	for _, m := range c.members {
		errs = append(errs, m.Close())
	}
	if c.namespaces != nil {
		errs = append(errs, c.namespaces.Close())
	}
	return errors.Join(errs...)
}

// askBound bounds one request to a member: a partitioned one does not answer.
const askBound = time.Second

// WaitServing waits until the member serves.
func (m *EtcdMember) WaitServing(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var answer struct{ Health string }
		err := m.ask(ctx, http.MethodGet, "/health", &answer)
		if err == nil && answer.Health == "true" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("etcd %d on %s: %w: %w\n%s", m.ID, m.Addr, context.Cause(ctx), err, m.tail())
		case <-tick.C:
		}
	}
}

// Leads asks the member whether it is the leader.
func (m *EtcdMember) Leads(ctx context.Context) (bool, error) {
	var answer struct {
		Header struct {
			MemberID string `json:"member_id"`
		}
		Leader string
	}
	if err := m.ask(ctx, http.MethodPost, "/v3/maintenance/status", &answer); err != nil {
		return false, fmt.Errorf("etcd %d on %s: %w", m.ID, m.Addr, err)
	}
	return answer.Leader != "" && answer.Leader == answer.Header.MemberID, nil
}

// Version asks the member for the version of its program.
func (m *EtcdMember) Version(ctx context.Context) (string, error) {
	var answer struct{ EtcdServer string }
	if err := m.ask(ctx, http.MethodGet, "/version", &answer); err != nil {
		return "", fmt.Errorf("etcd %d on %s: %w", m.ID, m.Addr, err)
	}
	return answer.EtcdServer, nil
}

// Partition partitions the member from clients and peers, silently: packets to it are lost, and no connection is closed.
func (m *EtcdMember) Partition(ctx context.Context) error {
	return m.inNamespace("partition", func(ns *docker.Namespaces) error { return ns.Partition(ctx, m.ID) })
}

// Isolate partitions the member from the other members only, in the same way.
func (m *EtcdMember) Isolate(ctx context.Context) error {
	return m.inNamespace("isolate", func(ns *docker.Namespaces) error { return ns.Isolate(ctx, m.ID) })
}

// Heal ends Partition and Isolate.
func (m *EtcdMember) Heal(ctx context.Context) error {
	return m.inNamespace("heal", func(ns *docker.Namespaces) error { return ns.Heal(ctx, m.ID) })
}

// inNamespace calls do, and names the operation and the member in its error.
func (m *EtcdMember) inNamespace(op string, do func(*docker.Namespaces) error) error {
	err := docker.ErrUnsupported
	if m.namespaces != nil {
		err = do(m.namespaces)
	}
	if err != nil {
		return fmt.Errorf("%s: etcd %d on %s: %w", op, m.ID, m.Addr, err)
	}
	return nil
}

// listens returns nil if the member accepts connections. To serve requests it also needs a quorum, which need not exist yet.
func (m *EtcdMember) listens(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", m.Addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

// ask sends an HTTP request on its own connection, and decodes the answer's JSON.
func (m *EtcdMember) ask(ctx context.Context, method, path string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+m.Addr+path, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return fmt.Errorf("%s: %w", response.Status, err)
	}
	return nil
}

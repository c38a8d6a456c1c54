// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// galeraLibraries are the files that distributions install as the provider of Galera 4.
var galeraLibraries = []string{"/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so"}

// RunGalera starts a cluster of MariaDB servers, each of which accepts writes. Its nodes cannot transfer their state, so a node
// that was killed cannot be started again. The caller must Close all of them.
func RunGalera(ctx context.Context, nodes int) ([]*SQL, error) {
	cluster, err := runGalera(ctx, nodes)
	if err != nil {
		for _, s := range cluster {
			err = errors.Join(err, s.Close())
		}
		return nil, fmt.Errorf("start galera: %w", err)
	}
	return cluster, nil
}

func runGalera(ctx context.Context, nodes int) (cluster []*SQL, err error) {
	library := slices.IndexFunc(galeraLibraries, func(file string) bool { _, err := os.Stat(file); return err == nil })
	if library < 0 {
		return nil, fmt.Errorf("the library of galera is %w", ErrNotInstalled)
	}
	addrs := make([]string, nodes)
	for n := range addrs {
		if addrs[n], err = freeAddr(); err != nil {
			return nil, err
		}
	}
	for n, addr := range addrs {
		s, err := newMariaDB(ctx,
			"--wsrep-on=ON", "--wsrep-provider="+galeraLibraries[library], "--wsrep-cluster-name=lockkeeper",
			"--wsrep-cluster-address=gcomm://"+strings.Join(addrs, ","), "--wsrep-start-position="+galeraState+":0",
			fmt.Sprintf("--wsrep-node-name=node%d", n), "--wsrep-node-address=127.0.0.1", "--wsrep-sst-method=skip",
			"--wsrep-provider-options=gmcast.listen_addr=tcp://"+addr+";gcache.size=16M",
			"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2",
		)
		if err != nil {
			return cluster, err
		}
		cluster = append(cluster, s)
		if err := s.joinSavedView(n, nodes); err != nil {
			return cluster, err
		}
		serves := s.ready
		s.ready = func(ctx context.Context) error { return errors.Join(serves(ctx), s.synced(ctx, nodes)) }
	}
	// No node serves before all do.
	var starting sync.WaitGroup
	errs := make([]error, nodes)
	for n, s := range cluster {
		starting.Go(func() { errs[n] = s.Start(ctx) })
	}
	starting.Wait()
	return cluster, errors.Join(errs...)
}

// galeraState identifies the data of a new cluster. All nodes have the same data: none.
const galeraState = "6c6f636b-6b65-11f1-8000-657065720000"

// joinSavedView writes the files of a node whose cluster was shut down as a whole. Since all members have the same state, they
// form the cluster again without a state transfer.
func (s *SQL) joinSavedView(n, nodes int) error {
	member := func(n int) string { return fmt.Sprintf("6c6f636b-6b65-11f1-8000-%012d", n+1) }
	var view strings.Builder
	fmt.Fprintf(&view, "my_uuid: %s\n#vwbeg\nview_id: 3 %s 1\nbootstrap: 0\n", member(n), member(0))
	for other := range nodes {
		fmt.Fprintf(&view, "member: %s 0\n", member(other))
	}
	view.WriteString("#vwend\n")
	for name, text := range map[string]string{
		"grastate.dat": "# GALERA saved state\nversion: 2.1\nuuid: " + galeraState + "\nseqno: 0\nsafe_to_bootstrap: 1\n",
		"gvwstate.dat": view.String(),
	} {
		file := filepath.Join(s.data(), name)
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), s.own(file)); err != nil {
			return err
		}
	}
	return nil
}

// synced returns nil if the node is in a cluster of the given size and accepts writes.
func (s *SQL) synced(ctx context.Context, nodes int) error {
	return s.asAdmin(func(db *sql.DB) error {
		var state string
		var size int
		err := db.QueryRowContext(ctx, `SELECT
			(SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'wsrep_local_state_comment'),
			(SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'wsrep_cluster_size')`,
		).Scan(&state, &size)
		if err == nil && (state != "Synced" || size != nodes) {
			err = fmt.Errorf("the node is %q, in a cluster of %d", state, size)
		}
		return err
	})
}

// Galera is RunGalera for tests. It fails tb on error, or skips it if Galera is not installed, and closes the nodes when tb
// ends.
func Galera(tb testing.TB, nodes int) []*SQL {
	tb.Helper()
	cluster, err := RunGalera(tb.Context(), nodes)
	if err != nil {
		unstarted(tb, err)
	}
	for _, s := range cluster {
		started(tb, s, nil)
	}
	return cluster
}

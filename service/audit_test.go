// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/service"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// audited starts an ensemble, and replicas with an audit file each.
func audited(t *testing.T, n int) (e *zktest.Ensemble, replicas []*replica, files []string) {
	t.Helper()
	e = zktest.Start(t, nil)
	principalsFile, keysFile := credentials(t)
	for range n {
		file := filepath.Join(t.TempDir(), "audit.jsonl")
		replicas = append(replicas, start(t, service.Config{
			Servers: e.Addrs(), Principals: principalsFile, TokenKeys: keysFile, Audit: file, Burst: 1000,
		}))
		files = append(files, file)
	}
	return e, replicas, files
}

// find returns the rows of an audit file that have an action.
func find(t *testing.T, file, action string) (rows []map[string]any) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		var row map[string]any
		if json.Unmarshal(scanner.Bytes(), &row) == nil && row["action"] == action { // the last row may be incomplete
			rows = append(rows, row)
		}
	}
	return rows
}

func TestForcedReleasesOfAllReplicasAreListed(t *testing.T) {
	t.Parallel()
	_, replicas, files := audited(t, 2)
	one, two := replicas[0], replicas[1]
	const list = "/v1/admin/actions"
	require.Empty(t, one.send("ops", http.MethodGet, list, "").is(200, "").body["actions"])
	held := one.post("team", orders+"/acquire", request("w1", "r1", "")).is(200, "")
	force := func(r *replica, token string) *response {
		return r.post("ops", orders+"/force-release", fmt.Sprintf(`{"fencingToken": %s, "reason": "stuck", "mode": "now"}`, token))
	}
	last := force(two, held.text("fencingToken")).is(200, "")
	const other = "/v1/locks/sales/orders"
	holds := one.post("sales", other+"/acquire", request("w1", "r1", "")).is(200, "")
	for range 270 {
		one.post("ops", other+"/force-release", `{"fencingToken": 1, "reason": "stuck"}`).is(409, "HOLDER_CHANGED")
	}

	listed := func(query string) []any {
		actions, _ := one.send("ops", http.MethodGet, list+query, "").is(200, "").body["actions"].([]any)
		return actions
	}
	actions := listed("")
	require.Len(t, actions, 1, "a refused one has changed nothing, and displaces none")
	first, _ := actions[0].(map[string]any)
	delete(first, "time")
	require.Equal(t, map[string]any{
		"action": "force-release", "principal": "ops", "namespace": "team", "lockKey": "orders", "mode": "now", "reason": "stuck",
		"fencingToken": held.text("fencingToken"), "node": last.text("node"), "status": 200.0, "request": last.header.Get("X-Request-Id"),
	}, first)
	one.post("ops", other+"/force-release", fmt.Sprintf(`{"fencingToken": %s, "reason": "late"}`, holds.text("fencingToken"))).is(200, "")
	require.Len(t, listed(""), 2)
	newest, _ := listed("?limit=1")[0].(map[string]any)
	require.Equal(t, "sales", newest["namespace"])
	require.Len(t, listed("?namespace=team"), 1)
	one.send("team", http.MethodGet, list, "").is(403, "FORBIDDEN")
	one.send("ops", http.MethodGet, list+"?limit=257", "").is(422, "INVALID_REQUEST")
	require.Len(t, find(t, files[1], "force-release-requested"), 1, "the audit has the action before it is carried out")
	require.Eventually(t, func() bool { return len(find(t, files[1], "force-release")) == 1 }, patience, 20*time.Millisecond)
}

func TestRefusedForcedReleaseIsNotListedIfItsRecordWasRepeated(t *testing.T) {
	t.Parallel()
	e, replicas, _ := audited(t, 1)
	r := replicas[0]
	r.post("team", orders+"/acquire", request("w1", "r1", "")).is(200, "")
	refused := func() {
		r.post("ops", orders+"/force-release", `{"fencingToken": 1, "reason": "stuck"}`).is(409, "HOLDER_CHANGED")
	}
	refused() // which creates the parents
	lost := e.Intercept(zktest.Rule{Op: "create", When: func(r zktest.Request) bool {
		return strings.Contains(r.Path, "/=actions/team/")
	}, Times: 1, Lose: zktest.ToClient})
	refused()
	require.Equal(t, 1, lost.Fired())
	require.Empty(t, r.send("ops", http.MethodGet, "/v1/admin/actions", "").is(200, "").body["actions"])
}

func TestLeaseThatReplicaDeletedIsInItsAudit(t *testing.T) {
	t.Parallel()
	_, replicas, files := audited(t, 1)
	r := replicas[0]
	r.post("team", "/v1/locks/team/a%2Fb/acquire", request("w1", "r1", `, "ttlMillis": 1000`)).is(200, "")
	require.Eventually(t, func() bool { return len(find(t, files[0], "expire")) == 1 }, patience, 20*time.Millisecond)
	expired, granted := find(t, files[0], "expire")[0], find(t, files[0], "acquire")[0]
	for _, field := range []string{"namespace", "key", "node"} {
		require.NotEmpty(t, expired[field])
		require.Equal(t, granted[field], expired[field])
	}
}

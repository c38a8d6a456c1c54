// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// An examination is what doctor prints in JSON, without the servers.
type examination struct {
	Queues   int
	Findings []finding
	Notes    []string
}

// examineJSON runs doctor, and returns the exit status and the decoded output.
func examineJSON(t *testing.T, ensemble *zktest.Ensemble, args ...string) (int, examination) {
	t.Helper()
	status, stdout, stderr := runInProcess(t, ensemble, append([]string{"doctor", "--json"}, args...)...)
	var e examination
	require.NoError(t, json.Unmarshal([]byte(stdout), &e), "%s%s", stdout, stderr)
	return status, e
}

func TestDoctorFindsNothingWhereNothingIsWrong(t *testing.T) {
	ensemble := startServers(t, &zktest.Options{Servers: 3})
	take(t, clientOf(t, ensemble, "a"), "/locks/ledger")
	status, stdout, stderr := runInProcess(t, ensemble, "doctor")
	require.Equal(t, statusOK, status, stderr)
	require.Regexp(t, `(?m)^127.* leader +3\.8\.0-zktest .* 500ms +10s of 1s to 10s +0x1`, stdout)
	require.Regexp(t, `(?m)^127.* follower `, stdout)
	require.Regexp(t, `\n3 nodes, 1 queues with contenders\nno problems\n$`, stdout)
	require.Empty(t, stderr)
	require.Len(t, ensemble.Sessions(), 1, "it closes its sessions")

	status, stdout, _ = runInProcess(t, ensemble, "doctor", "--json")
	require.Equal(t, statusOK, status)
	var decoded struct {
		Servers []struct {
			Address, Mode, Version, Zxid string
			PingSeconds, WriteSeconds    float64
			TickSeconds                  float64
			MinSessionTimeoutSeconds     float64
			SessionTimeoutSeconds        float64
		}
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &decoded))
	require.Len(t, decoded.Servers, 3)
	require.Equal(t, "leader", decoded.Servers[0].Mode)
	require.Equal(t, 0.5, decoded.Servers[0].TickSeconds)
	require.Equal(t, 1.0, decoded.Servers[0].MinSessionTimeoutSeconds)
	require.Equal(t, 10.0, decoded.Servers[0].SessionTimeoutSeconds)
	require.Positive(t, decoded.Servers[0].PingSeconds)
	require.Positive(t, decoded.Servers[0].WriteSeconds)
}

func TestDoctorFindsProblemsOfQueues(t *testing.T) {
	ensemble := startServers(t, nil)
	client := clientOf(t, ensemble, "a")
	take(t, client, "/ledger")
	take(t, client, "/ledger/part")
	for _, path := range []string{"/ledger/note", "/stale", "/stale/x-lock-0000000007", "/leased", "/garbage", "/secret"} {
		require.NoError(t, ensemble.Create(path, nil))
	}
	require.NoError(t, ensemble.Create("/leased/x-lock-0000000000", []byte(`{"format":1,"kind":"lease","ttl":30000}`)))
	require.NoError(t, ensemble.Create("/garbage/x-lock-0000000000", []byte(`{"format":1,"kind":"lease"}`)))
	_, err := client.Conn().Create("/secret/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.DigestACL(zk.PermAll, "user", "password"))
	require.NoError(t, err)
	require.NoError(t, ensemble.Create("/busy", nil))
	apply(t, ensemble, "set-counter /busy 2147482648")

	status, d := examineJSON(t, ensemble)
	require.Equal(t, statusFailed, status)
	require.Equal(t, 6, d.Queues)
	causes := map[string]string{}
	for _, f := range d.Findings {
		require.NotEmpty(t, f.Remedy)
		causes[f.Operation+" "+f.Object] = f.Cause
	}
	require.Len(t, causes, 5, "%v", d.Findings)
	require.Contains(t, causes["list /ledger"], `1 children belong to no known library ("note")`)
	require.Contains(t, causes["check session /stale/x-lock-0000000007"], "the contender belongs to no session")
	require.Contains(t, causes["check session /garbage/x-lock-0000000000"], "its record is not a lease's", "it has no TTL")
	require.Contains(t, causes["read /secret/lock-0000000000"], "contenders behind it cannot wait")
	require.Contains(t, causes["check counter /busy"], "the next number is 2147482648 of 2147483647")

	status, d = examineJSON(t, ensemble, "/leased")
	require.Equal(t, statusOK, status)
	require.Equal(t, 1, d.Queues)
}

func TestDoctorNamesWholePathOfNodeToDelete(t *testing.T) {
	ensemble := startServers(t, nil)
	node := "/services/payments/locks/ledger/" + strings.Repeat("b", 51) + "x-lock-0000000007"
	require.NoError(t, ensemble.Create(node, nil))
	status, stdout, stderr := runInProcess(t, ensemble, "doctor")
	require.Equal(t, statusFailed, status, stderr)
	require.Contains(t, stdout, "\ncheck session "+node+": the contender belongs to no session")
}

func TestDoctorFindsContenderWhoseSessionDoesNotExist(t *testing.T) {
	ensemble := startServers(t, nil)
	client := clientOf(t, ensemble, "a")
	held := take(t, client, "/ledger")
	owners := map[string]string{held.Path(): hexID(client.SessionID()), "/ledger/released": "0x1"}
	d := &diagnosis{}
	require.NoError(t, d.checkOwners(client, owners, map[string]bool{hexID(client.SessionID()): true}))
	require.Empty(t, d.Findings)
	require.NoError(t, d.checkOwners(client, owners, map[string]bool{}))
	require.Len(t, d.Findings, 1)
	require.Equal(t, held.Path(), d.Findings[0].Object)
	require.Contains(t, d.Findings[0].Cause, "does not exist")
}

func TestDoctorFindsLeaseThatNothingEnds(t *testing.T) {
	written := time.Now()
	for _, test := range []struct {
		record string
		age    time.Duration
		want   int
	}{
		{`{"format":1,"kind":"lease","ttl":30000}`, 2 * time.Minute, 0},
		{`{"format":1,"kind":"lease","ttl":30000}`, 2*time.Minute + time.Second, 1},
		{`{"format":1,"kind":"lease","ttl":3600000}`, 2 * time.Hour, 0},
		{`{"format":1,"kind":"lease"}`, 2 * time.Hour, 0},
	} {
		d := &diagnosis{}
		d.checkLease("/ledger/x-lock-0000000000", []byte(test.record), written, written.Add(test.age))
		require.Len(t, d.Findings, test.want, "%s %v", test.record, test.age)
	}
}

func TestDoctorReadsSessionsOfServer(t *testing.T) {
	ensemble := startServers(t, nil)
	client := clientOf(t, ensemble, "a")
	take(t, client, "/ledger")
	live := sessionsOf((&prober{bound: time.Minute}).word(t.Context(), addresses(ensemble)[0], "dump"))
	require.Equal(t, map[string]bool{hexID(client.SessionID()): true}, live)
	require.Nil(t, sessionsOf(""))
}

func TestDoctorFindsTimeoutBelowFourTicks(t *testing.T) {
	ensemble := startServers(t, nil)
	status, d := examineJSON(t, ensemble, "--session-timeout", "1999ms")
	require.Equal(t, statusFailed, status)
	require.Len(t, d.Findings, 1)
	require.Contains(t, d.Findings[0].Cause, "1.999s is below four ticks of 500ms")
	require.Equal(t, "request at least 2s", d.Findings[0].Remedy)

	status, d = examineJSON(t, ensemble, "--session-timeout", "1m")
	require.Equal(t, statusOK, status)
	require.Contains(t, d.Notes[0], "grants a session timeout of 10s for the requested 1m0s")
}

func TestDoctorFindsServerThatDoesNotAnswer(t *testing.T) {
	ensemble := startServers(t, nil)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	require.NoError(t, err)
	defer func() { require.NoError(t, silent.Close()) }()
	status, d := examineJSON(t, ensemble, "--servers", connectString(ensemble)+","+silent.Addr().String()+",127.0.0.1:1", "--connect-timeout", "5s")
	require.Equal(t, statusFailed, status)
	require.Len(t, d.Findings, 2)
	require.Equal(t, silent.Addr().String(), d.Findings[0].Object)
	require.Contains(t, d.Findings[0].Cause, "timeout")
	require.Contains(t, d.Findings[1].Cause, "refused")
}

func TestDoctorChecksBelowChroot(t *testing.T) {
	ensemble := startServers(t, nil)
	require.NoError(t, ensemble.Create("/app/ledger/note", nil))
	take(t, clientOf(t, ensemble, "a"), "/app/ledger")
	_, e := examineJSON(t, ensemble, "--servers", connectString(ensemble)+"/app")
	require.Len(t, e.Findings, 1)
	require.Equal(t, "/ledger", e.Findings[0].Object)
}

func TestDoctorReportsServerWithoutLeader(t *testing.T) {
	ensemble := startServers(t, &zktest.Options{Servers: 3})
	apply(t, ensemble, "kill 2")
	apply(t, ensemble, "kill 3")
	address := addresses(ensemble)[0]
	require.Eventually(t, func() bool {
		s := (&prober{bound: time.Second}).probe(t.Context(), address, 10*time.Second)
		return s.Error == "it is running but does not serve: it has no leader"
	}, time.Minute, 10*time.Millisecond)
}

func TestDoctorWithoutServersExitsWithStatus69(t *testing.T) {
	t.Setenv(serversVariable, "127.0.0.1:1")
	var stdout, stderr syncBuffer
	require.Equal(t, statusUnavailable, run(t.Context(), []string{"doctor", "--connect-timeout", "200ms"}, nil, &stdout, &stderr))
	require.Contains(t, stdout.String(), "connect 127.0.0.1:1: ")
	require.Equal(t, "lockkeeper: doctor: no server serves\n", stderr.String())
}

func TestDoctorComparesServers(t *testing.T) {
	state := func(address, mode string, zxid uint64) *serverState {
		return &serverState{
			Address: address, Mode: mode, Granted: seconds(10 * time.Second), Tick: seconds(2 * time.Second),
			Max: seconds(40 * time.Second), zxid: zxid,
		}
	}
	check := func(servers ...*serverState) diagnosis {
		d := diagnosis{Servers: servers}
		d.checkServers(10 * time.Second)
		return d
	}
	d := check(state("a", "leader", 0x1_efffffff), state("b", "follower", 1))
	require.Empty(t, d.Findings)
	require.Empty(t, d.Notes)

	d = check(state("a", "leader", 1), state("b", "follower", 0x1_f0000000))
	require.Len(t, d.Findings, 1)
	require.Equal(t, "check zxid", d.Findings[0].Operation)

	d = check(state("a", "leader", 1), state("b", "leader", 1), state("c", "", 1))
	require.Len(t, d.Findings, 1)
	require.Equal(t, "2 servers lead", d.Findings[0].Cause)
	require.Len(t, d.Notes, 1)

	other := state("b", "follower", 1)
	other.Tick = seconds(3 * time.Second)
	d = check(state("a", "read-only", 1), other)
	require.Len(t, d.Findings, 2)
	require.Equal(t, "check mode", d.Findings[0].Operation)
	require.Equal(t, "check configuration", d.Findings[1].Operation)
}

func TestNextNumberOfSequenceIsKnownInWholeRange(t *testing.T) {
	for _, test := range []struct{ creates, children int64 }{{0, 0}, {5, 5}, {7, 2}, {1 << 30, 3}, {1<<31 - 1, 1}} {
		stat := &zk.Stat{Cversion: int32(2*test.creates - test.children), NumChildren: int32(test.children)}
		require.Equal(t, test.creates, int64(nextNumber(stat)))
	}
}

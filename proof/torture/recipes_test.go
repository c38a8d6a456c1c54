// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/txnlog"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

func TestDoubleBarrierIsOfFewerMembersThanContendersIfPossible(t *testing.T) {
	for _, of := range []struct{ contenders, replicas, size int }{
		{1, 0, 1}, {2, 0, 2}, {3, 0, 2}, {4, 0, 3}, {16, 0, 3}, {2, 2, 1}, {4, 2, 2}, {5, 2, 2}, {8, 2, 3},
	} {
		var spec worker.Spec
		(&Options{Recipes: true, Contenders: of.contenders, Replicas: of.replicas}).addRecipes(&spec)
		require.Equal(t, of.size, spec.DoubleSize, of)
	}
}

func TestOneContenderSetsTheBarrier(t *testing.T) {
	for name, sets := range map[string]bool{"c1.1": true, "c1.23": true, "c2.1": false, "c11.1": false} {
		spec := worker.Spec{Name: name}
		(&Options{Recipes: true, Contenders: 3}).addRecipes(&spec)
		require.Equal(t, sets, spec.SetsBarrier, name)
	}
}

func TestOtherContendersExerciseNoRecipe(t *testing.T) {
	opts := &Options{}
	require.Nil(t, newResult(opts).Recipes)
	var spec worker.Spec
	opts.addRecipes(&spec)
	require.Equal(t, worker.Spec{}, spec)
}

func TestLimitsActivationsAndDowngradesAreInTheCommitOrder(t *testing.T) {
	began := time.Now()
	log := txnlog.Server{}
	for i, part := range []txnlog.Part{
		{Type: txnlog.Create2, Paths: []string{root + "/b-limit"}, Data: []byte(`{"format":1,"limit":3}`)},
		{Type: txnlog.SetData, Paths: []string{root + "/b-limit"}, Data: []byte(`{"format":1,"limit":4}`)},
		{Type: txnlog.SetData, Paths: []string{root + "/b-limit"}, Data: []byte(`no limit`)},
		{Type: txnlog.Create2, Paths: []string{schedulesPath + "/0-last"}, Data: []byte(`{"format":1,"activation":"2026-11-22T17:00:01Z","token":"7"}`)},
		{Type: txnlog.SetData, Paths: []string{schedulesPath + "/0-last"}, Data: []byte(`{"format":1,"activation":"2026-11-22T17:00:02Z","token":"8"}`)},
		{Type: txnlog.SetData, Paths: []string{root + "/c/1-__WRIT__0000000000"}, Data: []byte(`{"nonce":"n","shared":true}`)},
		{Type: txnlog.Create2, Paths: []string{root + "/barrier"}},
		{Type: txnlog.Create2, Paths: []string{doublePath + "/1-1/m"}},
	} {
		log.Txns = append(log.Txns, txnlog.Txn{Zxid: int64(i + 1), Session: 9, Request: 1, Time: began, Type: part.Type, Part: part})
	}
	var limits []int
	var created []string
	var activations []string
	downgraded := 0
	for _, e := range order(new(verdict.Result), []txnlog.Server{log}, func([]txnlog.Txn) *clocks { return &clocks{pairs: []bothClocks{{began, 0}}} }) {
		require.True(t, isOrder(e), e.Kind)
		switch e.Kind {
		case history.Limited:
			require.Equal(t, root+"/b", e.Path)
			limits = append(limits, e.Limit)
		case history.Stored:
			require.Equal(t, schedulesPath+"/0", e.Path)
			activations = append(activations, e.Text+" "+e.Token.String())
		case history.Downgraded:
			downgraded++
		case history.Created:
			created = append(created, e.Node)
		default:
		}
	}
	require.Equal(t, []int{3, 4}, limits)
	require.Equal(t, []string{"2026-11-22T17:00:01Z " + history.ID(7).String(), "2026-11-22T17:00:02Z " + history.ID(8).String()}, activations)
	require.Equal(t, 1, downgraded)
	require.Subset(t, created, []string{root + "/barrier", doublePath + "/1-1/m"})
}

func TestNodesOfMembersAndCandidatesCountAsLeft(t *testing.T) {
	o := newOperator(docker.Start(t, nil).Addrs())
	left, err := o.leftOfRecipes(t.Context())
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, o.do(t.Context(), func(conn *zk.Conn) error {
		for _, node := range []string{
			root, groupPath, groupPath + "/c1", schedulesPath, schedulesPath + "/0", schedulesPath + "/0/1-lock-0000000000", schedulesPath + "/0-last",
			delayedPath, delayedPath + "/2-lock-0000000000",
			doublePath, doublePath + "/state", doublePath + "/1-1", doublePath + "/1-1/m",
			assignmentPath, assignmentPath + "/set", assignmentPath + "/members", assignmentPath + "/members/c1",
			assignmentPath + "/leader", assignmentPath + "/leader/3-lock-0000000000", assignmentPath + "/owned", assignmentPath + "/owned/0",
			assignmentPath + "/owned/0/4-lock-0000000000", assignmentPath + "/assigned", assignmentPath + "/assigned/c1",
		} {
			if _, err := conn.Create(node, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
				return err
			}
		}
		return nil
	}))
	left, err = o.leftOfRecipes(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{
		groupPath + "/c1", assignmentPath + "/members/c1", doublePath + "/1-1/m", assignmentPath + "/leader/3-lock-0000000000",
		schedulesPath + "/0/1-lock-0000000000", assignmentPath + "/owned/0/4-lock-0000000000", delayedPath + "/2-lock-0000000000",
	}, left)
}

func TestValuesAndHandOversAreInTheCommitOrder(t *testing.T) {
	began := time.Now()
	log := txnlog.Server{}
	for i, part := range []txnlog.Part{
		{Type: txnlog.Create2, Paths: []string{root + "/a-value"}},
		{Type: txnlog.SetData, Paths: []string{root + "/a-value"}, Data: []byte(`{"format":1,"token":"7","value":"161"}`)},
		{Type: txnlog.SetData, Paths: []string{root + "/a-value"}, Data: []byte(`{"format":1,"token":"7","value":"161","draining":true}`)},
		{Type: txnlog.Create2, Paths: []string{root + "/a-handover"}, Data: []byte(`{"format":1,"token":"7","target":"n","owner":"x"}`)},
		{Type: txnlog.SetData, Paths: []string{root + "/a-priority"}, Data: []byte(`{"format":1,"first":"7","node":"n"}`)},
	} {
		log.Txns = append(log.Txns, txnlog.Txn{Zxid: int64(i + 1), Session: 9, Request: 1, Time: began, Type: part.Type, Part: part})
	}
	var written []history.Event
	for _, e := range order(new(verdict.Result), []txnlog.Server{log}, func([]txnlog.Txn) *clocks { return &clocks{pairs: []bothClocks{{began, 0}}} }) {
		require.True(t, isOrder(e), e.Kind)
		if e.Kind == history.Proclaimed || e.Kind == history.HandedOver {
			require.Equal(t, root+"/a", e.Path)
			require.EqualValues(t, 7, e.Token)
			written = append(written, history.Event{Kind: e.Kind, Write: e.Write, Text: e.Text})
		}
	}
	require.Equal(t, []history.Event{
		{Kind: history.Proclaimed, Write: 161},
		{Kind: history.Proclaimed, Write: 161, Text: "draining"},
		{Kind: history.HandedOver, Text: "n"},
	}, written)
}

// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/check"
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture/txnlog"
	"github.com/lockkeeper/lockkeeper/torture/worker"
)

func TestRecipeThatWasNeverExercisedIsNotShown(t *testing.T) {
	r := good(t)
	r.Recipes = map[string]int{"lock": 0, worker.Several: 0, worker.Schedule: 0, worker.Publish: 0, worker.Observer: 0, worker.Takeover: 0, worker.Barrier: 0, worker.Double: 0}
	Rejudge(r)
	require.Equal(t, NotShown, r.Verdict)
	require.Len(t, r.Untried, 7)
	require.Contains(t, r.Untried[4], "recipe schedule: never granted or run")
	require.Contains(t, r.Untried[5], "recipe several locks: never granted or run")
	require.Positive(t, r.Recipes["lock"])
	verdicts := map[check.Rule]string{}
	for _, p := range r.Promises {
		verdicts[p.Rule] = p.Verdict
	}
	require.Equal(t, NotShown, verdicts[check.AllOrNothing])
	require.Equal(t, NotShown, verdicts[check.TickOnce])
	require.Equal(t, NotShown, verdicts[check.TrueLeader])
	require.Equal(t, NotShown, verdicts[check.HeldState])
	require.Equal(t, NotShown, verdicts[check.CrashOrClean])
	for _, rule := range []check.Rule{check.OpenBarrier, check.FullRound, check.WholeRound} {
		require.Equal(t, NotShown, verdicts[rule])
	}
	require.NotContains(t, verdicts, check.PermitsWithinLimit, "these contenders had no semaphore")
}

func TestLeaderThatNoObserverMayBeShownIsAFinding(t *testing.T) {
	r := good(t)
	r.Recipes = map[string]int{worker.Observer: 0}
	granted := r.History[slices.IndexFunc(r.History, func(e history.Event) bool { return e.Kind == history.Granted })]
	shown := history.Event{Kind: history.Observed, At: granted.At, Contender: "c9.1", Path: granted.Path, Token: granted.Token, Write: 161}
	r.History = slices.Insert(r.History, len(r.History)-1, shown)
	Rejudge(r)
	require.Equal(t, Broken, r.Verdict)
	require.Contains(t, r.Findings[0].Text, "a value that the leader had not published")
	require.Equal(t, check.TrueLeader, r.Findings[0].Rule)
}

func TestBarrierThatIsSetAndRoundThatIsNotFullAreFindings(t *testing.T) {
	log := txnlog.Server{}
	for i, created := range []string{barrierPath, doublePath + "/1-1/m"} {
		part := txnlog.Part{Type: txnlog.Create2, Paths: []string{created}}
		log.Txns = append(log.Txns, txnlog.Txn{Zxid: 1<<40 + int64(i), Session: 9, Request: 1, Type: part.Type, Part: part})
	}
	r := good(t)
	end := r.History[len(r.History)-1]
	at := func(e history.Event) history.Event {
		e.At, e.Contender = end.At, "c9.1"
		return e
	}
	met := new(Result).order([]txnlog.Server{log}, func([]txnlog.Txn) *clocks { return &clocks{} })
	for i := range met {
		met[i].At = end.At / 2
	}
	member := history.Event{Path: doublePath, Node: doublePath + "/1-1/m", Limit: 2}
	for _, kind := range []history.Kind{history.Waiting, history.Passed, history.Entering, history.Entered} {
		e := member
		if kind == history.Waiting || kind == history.Passed {
			e = history.Event{Path: barrierPath}
		}
		e.Kind = kind
		met = append(met, at(e))
	}
	r.History = inOrder(append(slices.Clone(r.History[:len(r.History)-1]), append(met, end)...))
	for _, exercised := range []bool{false, true} {
		if exercised {
			r.Recipes = map[string]int{worker.Barrier: 0, worker.Double: 0}
		}
		Rejudge(r)
		var broken []check.Rule
		for _, f := range r.Findings {
			broken = append(broken, f.Rule)
		}
		require.Equal(t, exercised, slices.Contains(broken, check.OpenBarrier), broken)
		require.Equal(t, exercised, slices.Contains(broken, check.FullRound), broken)
	}
	require.Equal(t, Broken, r.Verdict)
}

func TestEachRecipeIsCounted(t *testing.T) {
	r := &Result{Recipes: (&Options{Recipes: true}).exercise()}
	asked := func(attempt, together int, text string) history.Event {
		return history.Event{Kind: history.Asked, Attempt: attempt, Together: together, Text: text}
	}
	r.History = []history.Event{
		asked(1, 0, "lock, for 3s"), asked(2, 0, "try"), asked(3, 0, "campaign"), asked(4, 0, "read"), asked(5, 0, "downgrade"), asked(6, 0, "acquire2"),
		asked(7, 0, "tryacquire"), asked(8, 8, "all, for 1s"), asked(9, 8, "all, for 1s"), asked(10, 0, "lock"), asked(11, 0, "write"), asked(12, 0, "nest"),
		{Kind: history.Downgraded},
		{Kind: history.Listed},
		{Kind: history.Ran},
		{Kind: history.Ran},
		{Kind: history.Proclaimed},
		{Kind: history.HandedOver},
		{Kind: history.Observed},
		{Kind: history.Fenced},
		{Kind: history.Passed},
		{Kind: history.Left},
	}
	for attempt := range 13 {
		if attempt != 10 {
			r.History = append(r.History, history.Event{Kind: history.Granted, Attempt: attempt})
		}
	}
	r.countRecipes()
	require.Equal(t, map[string]int{
		"lock": 2, "election": 1, "reader": 1, "writer": 2, worker.Downgrade: 1, worker.Permits: 2, worker.Several: 1, worker.Nested: 1, worker.Schedule: 2, worker.Group: 1,
		worker.Publish: 1, worker.HandOver: 1, worker.Observer: 1, worker.Takeover: 1, worker.Barrier: 1, worker.Double: 1,
	}, r.Recipes)
	require.Empty(t, r.unexercised())
}

func TestDoubleBarrierIsOfFewerMembersThanContendersIfPossible(t *testing.T) {
	for _, of := range []struct{ contenders, replicas, size int }{
		{1, 0, 1}, {2, 0, 2}, {3, 0, 2}, {4, 0, 3}, {16, 0, 3}, {2, 2, 1}, {4, 2, 2}, {5, 2, 2}, {8, 2, 3},
	} {
		o := &Options{Contenders: of.contenders, Replicas: of.replicas}
		require.Equal(t, of.size, o.doubleSize(), of)
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
	require.Nil(t, opts.exercise())
	var spec worker.Spec
	opts.addRecipes(&spec)
	require.Equal(t, worker.Spec{}, spec)
}

func TestLimitsTicksAndDowngradesAreInTheCommitOrder(t *testing.T) {
	began := time.Now()
	log := txnlog.Server{}
	for i, part := range []txnlog.Part{
		{Type: txnlog.Create2, Paths: []string{root + "/b-limit"}, Data: []byte(`{"format":1,"limit":3}`)},
		{Type: txnlog.SetData, Paths: []string{root + "/b-limit"}, Data: []byte(`{"format":1,"limit":4}`)},
		{Type: txnlog.SetData, Paths: []string{root + "/b-limit"}, Data: []byte(`no limit`)},
		{Type: txnlog.Create2, Paths: []string{schedulesPath + "/0-last"}, Data: []byte(`{"format":1,"tick":"2026-11-22T17:00:01Z","token":"7"}`)},
		{Type: txnlog.SetData, Paths: []string{schedulesPath + "/0-last"}, Data: []byte(`{"format":1,"tick":"2026-11-22T17:00:02Z","token":"8"}`)},
		{Type: txnlog.SetData, Paths: []string{root + "/c/1-__WRIT__0000000000"}, Data: []byte(`{"nonce":"n","shared":true}`)},
	} {
		log.Txns = append(log.Txns, txnlog.Txn{Zxid: int64(i + 1), Session: 9, Request: 1, Time: began, Type: part.Type, Part: part})
	}
	var limits []int
	var ticks []string
	downgraded := 0
	for _, e := range new(Result).order([]txnlog.Server{log}, func([]txnlog.Txn) *clocks { return &clocks{pairs: []bothClocks{{began, 0}}} }) {
		require.True(t, isOrder(e.Kind), e.Kind)
		switch e.Kind {
		case history.Limited:
			require.Equal(t, root+"/b", e.Path)
			limits = append(limits, e.Limit)
		case history.Stored:
			require.Equal(t, schedulesPath+"/0", e.Path)
			ticks = append(ticks, e.Text+" "+e.Token.String())
		case history.Downgraded:
			downgraded++
		default:
		}
	}
	require.Equal(t, []int{3, 4}, limits)
	require.Equal(t, []string{"2026-11-22T17:00:01Z " + history.ID(7).String(), "2026-11-22T17:00:02Z " + history.ID(8).String()}, ticks)
	require.Equal(t, 1, downgraded)
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
		} {
			if _, err := conn.Create(node, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
				return err
			}
		}
		return nil
	}))
	left, err = o.leftOfRecipes(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{groupPath + "/c1", doublePath + "/1-1/m", schedulesPath + "/0/1-lock-0000000000", delayedPath + "/2-lock-0000000000"}, left)
}

func TestValuesAndHandOversAreInTheCommitOrder(t *testing.T) {
	began := time.Now()
	log := txnlog.Server{}
	for i, part := range []txnlog.Part{
		{Type: txnlog.Create2, Paths: []string{root + "/a-value"}},
		{Type: txnlog.SetData, Paths: []string{root + "/a-value"}, Data: []byte(`{"format":1,"token":"7","value":"161"}`)},
		{Type: txnlog.SetData, Paths: []string{root + "/a-value"}, Data: []byte(`{"format":1,"token":"7","value":"161","draining":true}`)},
		{Type: txnlog.Create2, Paths: []string{root + "/a-handover"}, Data: []byte(`{"format":1,"token":"7","target":"n","id":"x"}`)},
		{Type: txnlog.SetData, Paths: []string{root + "/a-priority"}, Data: []byte(`{"format":1,"first":"7","node":"n"}`)},
	} {
		log.Txns = append(log.Txns, txnlog.Txn{Zxid: int64(i + 1), Session: 9, Request: 1, Time: began, Type: part.Type, Part: part})
	}
	var written []history.Event
	for _, e := range new(Result).order([]txnlog.Server{log}, func([]txnlog.Txn) *clocks { return &clocks{pairs: []bothClocks{{began, 0}}} }) {
		require.True(t, isOrder(e.Kind), e.Kind)
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

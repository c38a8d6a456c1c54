// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

func TestRuleIsTestedOnlyWhereItCouldHaveBeenBroken(t *testing.T) {
	good, bad := read(t, "good"), read(t, "bad")
	for _, c := range []struct {
		name   string
		events []history.Event
		tested map[check.Rule]int
	}{
		{"contention without a fault", good["two-contend"], map[check.Rule]int{
			check.OwnNode: 2, check.FirstInQueue: 1, check.RisingTokens: 1, check.LivingNode: 0, check.FreshGrant: 0, check.NotifiedFirst: 0,
			check.NotifiedAtAll: 0, check.FencedRegister: 0, check.BareRegister: 0,
		}},
		{"a partitioned holder, notified", good["partitioned-holder"], map[check.Rule]int{check.NotifiedFirst: 1, check.NotifiedAtAll: 1, check.FencedRegister: 0}},
		{"a holder whose node is deleted before its work had stopped", bad["node-deleted-before-the-work-could-stop"], map[check.Rule]int{check.TimeToStop: 1}},
		{"a partitioned holder whose session times out", good["partitioned-holder"], map[check.Rule]int{check.TimeToStop: 0}},
		{"a stopped holder", good["paused-holder"], map[check.Rule]int{check.NotifiedFirst: 0, check.BareRegister: 0, check.FencedRegister: 1}},
		{"a crashed holder", good["crashed-holder"], map[check.Rule]int{check.NotifiedFirst: 0, check.NotifiedAtAll: 0}},
		{"a holder notified too late", bad["notified-too-late"], map[check.Rule]int{check.NotifiedFirst: 1, check.BareRegister: 1}},
		{"a partitioned waiter", bad["granted-without-proof"], map[check.Rule]int{check.FreshGrant: 1}},
		{"a crashed holder that is fenced", good["crashed-holder-is-fenced"], map[check.Rule]int{check.CrashOrClean: 1}},
		{"a holder that is not to be fenced", good["crashed-holder"], map[check.Rule]int{check.CrashOrClean: 0}},
		{"permits", good["permits-within-the-limit"], map[check.Rule]int{check.PermitsWithinLimit: 2, check.FirstInQueue: 1}},
		{"slots", good["slots"], map[check.Rule]int{
			check.OneNumber: 4, check.PermitsWithinLimit: 4, check.OwnNode: 4, check.FirstInQueue: 3, check.RisingTokens: 2, check.NotifiedAtAll: 1,
		}},
		{"several locks, of which one is lost, and a request that fails", good["several-locks"], map[check.Rule]int{check.AllOrNothing: 2}},
		{"a released, an expired and a revoked lease", good["leases"], map[check.Rule]int{check.KeptLease: 2, check.NotifiedFirst: 1, check.OwnDelete: 0, check.FreshGrant: 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NotEmpty(t, c.events)
			tested := check.Tested(c.events)
			for rule, n := range c.tested {
				require.Equal(t, n, tested[rule], "%s: %s", rule, rule.Counts())
			}
		})
	}
	require.Zero(t, check.Tested(nil)[check.NotifiedFirst])
	for _, rule := range append(check.Rules(), check.SoleHolder) {
		require.NotEmpty(t, rule.Counts(), rule)
		require.NotEmpty(t, rule.Meaning(), rule)
	}
}

// A holds from 1 s on, and B is granted the path at 6 s; T is 4 s.
func TestPartitionedHolderCountsIfItLosesTheLock(t *testing.T) {
	for _, c := range []struct {
		name, lines string
		counted     int
		before      int // counted in NotifiedBeforeGrant
	}{
		{"loses it", "1.5s partitioned A\n4s notified A deadline\n7s healed A", 1, 1},
		{"loses it to a partition that never heals", "1.5s partitioned A\n4s notified A deadline", 1, 1},
		{"is not partitioned", "4s notified A deadline", 0, 1},
		{"is partitioned before", "500ms partitioned A\n900ms healed A\n4s notified A deadline", 0, 1},
		{"is partitioned after", "4s notified A deadline\n4.5s partitioned A\n7s healed A", 0, 1},
		{"rides it out", "1.5s partitioned A\n2s healed A\n4s releasing A\n4s notified A released", 0, 0},
		{"is killed meanwhile", "1.5s partitioned A\n2s crashed A", 0, 0},
		{"another is", "1.5s partitioned C\n4s notified A deadline", 0, 1},
		{"acquires it again itself", "1.5s partitioned A\n4s notified A deadline\n4s asked a\n5s granted a\n5.5s releasing a\n5.5s notified a released", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			events := parse(t, fmt.Sprintf("0s run\n0s asked A\n1s granted A\n1s asked B\n%s\n6s granted B\n9s releasing B\n9s notified B released\n10s end", c.lines))
			require.Equal(t, c.counted, check.Measure(events).Partitioned)
			require.Equal(t, c.before, check.Measure(events).NotifiedBeforeGrant.Of)
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
)

func TestTimelineCountsFromPartitionAndAlignsColumns(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		tl := newTimeline(&out)
		tl.say("a", "leads, token %d", 12)
		time.Sleep(1202600 * time.Microsecond) // on the fake clock
		synctest.Wait()
		require.Empty(t, out.String(), "the instant to count from is not known yet")

		tl.zero("a", "is partitioned")
		time.Sleep(2105 * time.Millisecond)
		tl.say("", "waiting")
		synctest.Wait()
		soFar := "" +
			"      ms  who  what\n" +
			"   -1203  a    leads, token 12\n" +
			"       0  a    is partitioned\n" +
			"   +2105       waiting\n"
		require.Equal(t, soFar, out.String(), "later events are printed immediately")

		time.Sleep(time.Hour)
		tl.say("all", "have left")
		require.NoError(t, tl.close())
		require.Equal(t, soFar+"+3602105  all  have left\n", out.String())
	})
}

func TestTimelineWithoutPartitionCountsFromLastEvent(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		tl := newTimeline(&out)
		tl.say("a", "leads")
		time.Sleep(20 * time.Millisecond)
		tl.say("a", "is notified")
		require.NoError(t, tl.close())
		require.Equal(t, ""+
			"      ms  who  what\n"+
			"     -20  a    leads\n"+
			"       0  a    is notified\n", out.String())
	})
}

func TestTimelineWithoutEventsIsEmpty(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, newTimeline(&out).close())
	require.Empty(t, out.String())
}

func TestTimelineReturnsErrorOfWriter(t *testing.T) {
	tl := newTimeline(broken{})
	tl.zero("a", "is partitioned")
	tl.say("a", "is notified")
	require.EqualError(t, tl.close(), "write failed")
}

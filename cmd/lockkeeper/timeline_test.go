// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimelineCountsFromTheCutAndAlignsItsColumns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		tl := newTimeline(&out)
		tl.say("a", "leads, token %d", 12)
		time.Sleep(1202600 * time.Microsecond) // of the bubble: nobody waits
		synctest.Wait()
		require.Empty(t, out.String(), "the instant to count from is not known yet")

		tl.zero("a", "is cut off")
		time.Sleep(2105 * time.Millisecond)
		tl.say("", "waiting")
		synctest.Wait()
		soFar := "" +
			"      ms  who  what\n" +
			"   -1203  a    leads, token 12\n" +
			"       0  a    is cut off\n" +
			"   +2105       waiting\n"
		require.Equal(t, soFar, out.String(), "what happens after the cut is told at once")

		time.Sleep(time.Hour)
		tl.say("all", "go home")
		require.NoError(t, tl.close())
		require.Equal(t, soFar+"+3602105  all  go home\n", out.String())
	})
}

func TestTimelineWithoutACutTellsWhatThereWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		tl := newTimeline(&out)
		tl.say("a", "leads")
		time.Sleep(20 * time.Millisecond)
		tl.say("a", "is told")
		require.NoError(t, tl.close())
		require.Equal(t, ""+
			"      ms  who  what\n"+
			"     -20  a    leads\n"+
			"       0  a    is told\n", out.String())
	})
}

func TestTimelineOfWhichNothingHappenedIsEmpty(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, newTimeline(&out).close())
	require.Empty(t, out.String())
}

func TestTimelineReportsThatItCouldNotBeWritten(t *testing.T) {
	tl := newTimeline(broken{})
	tl.zero("a", "is cut off")
	tl.say("a", "is told")
	require.EqualError(t, tl.close(), "no paper")
}

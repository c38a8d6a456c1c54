// SPDX-License-Identifier: Apache-2.0

package background

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
)

func TestMailboxRunsFunctionsInOrderAndThoseThatWaitAtClose(t *testing.T) {
	m := NewMailbox()
	var ran []int
	blocked := make(chan struct{})
	require.True(t, m.Post(func() { <-blocked }, Unbounded))
	for i := range 100 {
		require.True(t, m.Post(func() { ran = append(ran, i) }, Unbounded))
	}
	m.Close()
	require.False(t, m.Post(func() { ran = append(ran, -1) }, Unbounded), "after Close")
	close(blocked)
	<-m.Stopped()
	require.Len(t, ran, 100)
	require.IsIncreasing(t, ran)
}

func TestMailboxTakesNoMoreThanTheBound(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		m := NewMailbox()
		blocked := make(chan struct{})
		m.Post(func() { <-blocked }, Unbounded)
		synctest.Wait()
		require.True(t, m.Post(func() {}, 2))
		require.True(t, m.Post(func() {}, 2))
		require.False(t, m.Post(func() {}, 2))
		require.True(t, m.Post(func() {}, Unbounded))
		close(blocked)
		m.Close()
		<-m.Stopped()
	})
}

func TestWaitForGroupIncludesThoseThatBeginMeanwhile(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var s Group
		s.Wait()
		began := time.Now()
		s.Run(func() { time.Sleep(time.Second) })
		time.AfterFunc(time.Second/2, func() { s.Run(func() { time.Sleep(time.Second) }) })
		s.Wait()
		require.Equal(t, 3*time.Second/2, time.Since(began))
	})
}

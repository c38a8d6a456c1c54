// SPDX-License-Identifier: Apache-2.0

package need

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMissingProgramFailsInCIAndSkipsElsewhere(t *testing.T) {
	for ci, want := range map[string]string{"": "skipped", "false": "skipped", "0": "skipped", "true": "failed", "1": "failed"} {
		t.Setenv("CI", ci)
		v := &verdict{TB: t}
		var test sync.WaitGroup
		test.Go(func() {
			Program(v, "missing-program", "install it")
			v.what = "continued"
		})
		test.Wait()
		require.Equal(t, want, v.what, "CI=%q", ci)
	}
}

func TestCrowdIsSkippedUnderRaceDetectorOnly(t *testing.T) {
	v := &verdict{TB: t, what: "continued"}
	var test sync.WaitGroup
	test.Go(func() { NoRaceDetector(v) })
	test.Wait()
	require.Equal(t, map[bool]string{true: "skipped", false: "continued"}[RaceDetector], v.what)
}

// A verdict is a testing.TB that records how it was ended.
type verdict struct {
	testing.TB
	what string
}

func (v *verdict) Skip(...any)           { v.end("skipped") }
func (v *verdict) Skipf(string, ...any)  { v.end("skipped") }
func (v *verdict) Fatalf(string, ...any) { v.end("failed") }

func (v *verdict) end(how string) {
	v.what = how
	runtime.Goexit()
}

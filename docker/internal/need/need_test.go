// SPDX-License-Identifier: Apache-2.0

package need

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMissingBackendFailsInCIUnlessTheOtherOneIsWanted(t *testing.T) {
	defer func(c bool, w string) { ci, wanted = c, w }(ci, wanted)
	for _, c := range []struct {
		ci     bool
		wanted string
		err    error
		want   string
	}{
		{true, "", nil, "continued"},
		{false, "", errors.New("gone"), "skipped"},
		{true, "", errors.New("gone"), "failed"},
		{true, "docker", errors.New("gone"), "failed"},
		{true, "java", errors.New("gone"), "skipped"},
	} {
		ci, wanted = c.ci, c.wanted
		v := &verdict{TB: t}
		var test sync.WaitGroup
		test.Go(func() {
			Backend(v, "docker", c.err)
			v.what = "continued"
		})
		test.Wait()
		require.Equal(t, c.want, v.what, "%+v", c)
	}
}

// A verdict is a testing.TB that records how it was ended.
type verdict struct {
	testing.TB
	what string
}

func (v *verdict) Skipf(string, ...any)  { v.end("skipped") }
func (v *verdict) Fatalf(string, ...any) { v.end("failed") }

func (v *verdict) end(how string) {
	v.what = how
	runtime.Goexit()
}

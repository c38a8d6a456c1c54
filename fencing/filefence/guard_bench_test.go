// SPDX-License-Identifier: Apache-2.0

package filefence_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/filefence"
)

// BenchmarkDo writes a file with the guard and without it, alternately, so that disturbances affect both alike. It runs with
// one token, as one holder writes, and with a new token each time, which must be on the disk before the write. The writes
// are synced, as writes that need a guard usually are.
func BenchmarkDo(b *testing.B) {
	for _, run := range []struct {
		name string
		step fencing.Token
	}{{"the same holder", 0}, {"a new holder each time", 1}} {
		b.Run(run.name, func(b *testing.B) {
			dir := b.TempDir()
			state := filepath.Join(dir, "fence")
			require.NoError(b, os.Mkdir(state, 0o700))
			guard, err := filefence.New(state, nil)
			require.NoError(b, err)
			write := func() error { return synced(filepath.Join(dir, "ledger")) }
			token := fencing.Token(7)
			var took [2]time.Duration
			for b.Loop() {
				token += run.step
				for i, write := range []func() error{
					func() error { return guard.Do(b.Context(), "ledger", token, func(*os.File) error { return write() }) }, write,
				} {
					start := time.Now()
					require.NoError(b, write())
					took[i] += time.Since(start)
				}
			}
			b.ReportMetric(0, "ns/op") // the sum of both has no meaning
			b.ReportMetric(float64(took[0])/float64(b.N), "guarded-ns/op")
			b.ReportMetric(float64(took[1])/float64(b.N), "bare-ns/op")
			b.ReportMetric(float64(took[1])/float64(took[0]), "ratio") // the rate of guarded writes to the rate of bare ones
		})
	}
}

// synced writes a file and syncs it.
func synced(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteString("a kilobyte would do as well")
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"bytes"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/objectfence"
)

// BenchmarkObject compares a guarded write of a kilobyte, which reads the object first, with a plain one.
func BenchmarkObject(b *testing.B) {
	next, _ := buckets(b)
	store := next().open()
	guard, err := objectfence.New(store, nil)
	require.NoError(b, err)
	body := bytes.Repeat([]byte("x"), 1024)
	sideBySide(b, func() error {
		return guard.Put(b.Context(), "guarded", fencing.Token(7), body)
	}, func() error {
		_, err := store.client.PutObject(b.Context(), &s3.PutObjectInput{
			Bucket: &store.name, Key: aws.String("bare"), Body: bytes.NewReader(body),
		})
		return err
	})
}

// sideBySide alternates guarded and bare writes, so that a disturbance affects both, and reports the ratio of the rate of guarded
// writes to the rate of bare ones.
func sideBySide(b *testing.B, guarded, bare func() error) {
	b.Helper()
	var took [2]time.Duration
	for b.Loop() {
		for i, write := range []func() error{guarded, bare} {
			start := time.Now()
			if err := write(); err != nil {
				b.Fatal(err)
			}
			took[i] += time.Since(start)
		}
	}
	b.ReportMetric(0, "ns/op") // the sum of both has no meaning
	b.ReportMetric(float64(took[0])/float64(b.N), "guarded-ns/op")
	b.ReportMetric(float64(took[1])/float64(b.N), "bare-ns/op")
	b.ReportMetric(float64(took[1])/float64(took[0]), "ratio")
}

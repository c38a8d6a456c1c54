// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// latencies are the times that writes take, in hundredths of T.
var latencies = []int{10, 15, 20, 25}

// slowWrites measures what survives on an ensemble whose writes are slow.
var slowWrites = &benchCase{
	name: "slow-writes", servers: []int{1},
	about: "Servers of zktest answer writes after 0.10 to 0.25 T, T = 4 s: how many locks are granted within 5 T, how long that takes, and how many holds last for T, and for 3 T.",
	round: func(r *round) error {
		results := make([]survivors, len(latencies))
		err := together(len(latencies), func(i int) (err error) {
			results[i], err = r.slow(latencies[i])
			return err
		})
		for i, s := range results {
			name := fmt.Sprintf("writes of 0.%02d T", latencies[i])
			r.add(name, "granted %", s.granted)
			if len(s.took) > 0 {
				r.add(name, "acquire T", median(s.took))
			}
			r.add(name, "kept for T %", s.young)
			r.add(name, "kept for 3 T %", s.old)
		}
		return err
	},
}

// survivors are the locks that are granted within 5 T, and those whose holds last, in percent, and how long the grants took, in T.
type survivors struct {
	took                []float64
	granted, young, old float64
}

// slow has clients of one server acquire a lock each, whose writes take that part of T, in percent.
func (r *round) slow(percent int) (s survivors, err error) {
	e, err := zktest.Run(r, &zktest.Options{Tick: failureTimeout / 4})
	if err != nil {
		return s, err
	}
	r.cleanup(func() { _ = e.Close() })
	e.Intercept(zktest.Rule{Delay: failureTimeout * time.Duration(percent) / 100, When: func(q zktest.Request) bool {
		return slices.Contains([]string{"create", "setData", "delete", "multi"}, q.Op)
	}})
	n := r.size(20, 5)
	share := 100 / float64(n)
	var mu sync.Mutex
	return s, together(n, func(i int) error {
		client, err := connect(r, e.Addrs()[0], failureTimeout, nil, nil)
		if err != nil {
			return err
		}
		r.cleanup(func() { _ = client.Close() })
		<-time.After(failureTimeout * time.Duration(i) / time.Duration(n)) // a silence of up to T
		began := time.Now()
		ctx, cancel := context.WithTimeout(r, 5*failureTimeout)
		defer cancel()
		hold, err := lockBy(ctx, client, r.path())
		if errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		granted := time.Now()
		lasts := func(d time.Duration) float64 {
			select {
			case <-hold.Done():
				return 0
			case <-time.After(time.Until(granted.Add(d))):
				return share
			}
		}
		young, old := lasts(failureTimeout), lasts(3*failureTimeout)
		mu.Lock()
		defer mu.Unlock()
		s.took = append(s.took, inT(granted.Sub(began)))
		s.granted, s.young, s.old = s.granted+share, s.young+young, s.old+old
		return nil
	})
}

// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/service/client"
)

// The steady load: so many callers acquire and release a lock each, in turns.
const (
	steadyCallers = 100
	steadyEvery   = 4 * time.Millisecond // 500 operations a second
)

// The loads that the case has, as names of libraries.
const (
	allServe  = "all servers"
	twoKilled = "two servers killed"
)

// serviceSteady measures how long the operations of the lock service take at a constant rate.
var serviceSteady = &benchCase{
	name: "service-500", servers: []int{3, 5},
	about: "500 operations a second, acquires and releases of 100 callers, of one replica of the lock service; of five servers, two followers are then killed.",
	round: func(r *round) error {
		url, err := r.replica()
		if err != nil {
			return err
		}
		clients, err := r.callers(url, steadyCallers)
		if err != nil {
			return err
		}
		if _, err := r.steady(clients, steadyCallers*steadyEvery); err != nil { // the keys are known from here on
			return err
		}
		if err := r.steadily(clients, allServe); err != nil || len(r.addrs) < 5 {
			return err
		}
		restart, err := r.killTwo()
		if err == nil {
			err = r.steadily(clients, twoKilled)
		}
		return errors.Join(err, restart())
	},
}

// steadily adds what the steady load measures.
func (r *round) steadily(clients []*client.Client, load string) error {
	r.progress("%s", load)
	times, err := r.steady(clients, r.during(20*time.Second))
	if err != nil {
		return fmt.Errorf("%s: %w", load, err)
	}
	for operation, all := range times {
		r.add(load, operation+" p50 ms", millis(median(all)))
		r.add(load, operation+" p99 ms", millis(quantile(all, 0.99)))
		r.add(load, operation+" worst ms", millis(quantile(all, 1)))
	}
	return nil
}

// steady has the callers acquire and release their locks at a constant rate, and returns how long the operations took. An acquire
// begins when it is due, so that one that waits for its caller counts as slow.
func (r *round) steady(clients []*client.Client, length time.Duration) (times map[string][]time.Duration, err error) {
	var mu sync.Mutex
	times = map[string][]time.Duration{}
	took := func(operation string, since time.Time) {
		mu.Lock()
		defer mu.Unlock()
		times[operation] = append(times[operation], time.Since(since))
	}
	began := time.Now()
	err = together(len(clients), func(worker int) error {
		for i := worker; ; i += len(clients) {
			due := began.Add(time.Duration(i) * steadyEvery)
			if due.Sub(began) >= length {
				return nil
			}
			<-time.After(time.Until(due))
			hold, err := clients[worker].Lock(r, "team", fmt.Sprintf("steady-%d", worker))
			if err != nil {
				return err
			}
			took("acquire", due)
			released := time.Now()
			if err := hold.Unlock(r); err != nil {
				return err
			}
			took("release", released)
		}
	})
	return times, err
}

// killTwo kills two followers. restart starts them again.
func (r *round) killTwo() (restart func() error, err error) {
	e := r.bench.ensembles[r.addrs[0]]
	if e == nil {
		return func() error { return nil }, errors.New("the servers cannot be killed")
	}
	followers, err := e.Followers(r)
	if err != nil {
		return func() error { return nil }, err
	}
	for _, s := range followers[:2] {
		err = errors.Join(err, s.Kill(r))
	}
	return func() error { return startAgain(r, e, followers[:2]) }, err
}

func startAgain(ctx context.Context, e *docker.Ensemble, servers []*docker.Server) (err error) {
	for _, s := range servers {
		err = errors.Join(err, s.Start(ctx))
	}
	return errors.Join(err, e.WaitServing(ctx))
}

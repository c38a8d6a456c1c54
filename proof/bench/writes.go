// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/epoch"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// turns measures operations in turns and adds the rate of each, with the ratio to the last one's.
func (r *round) turns(libraries []string, operations map[string]func() (int, error)) error {
	rates := map[string][]float64{}
	for turn := range r.size(50, 10) {
		for i := range libraries {
			name := libraries[(i+turn)%len(libraries)]
			began := time.Now()
			n, err := operations[name]()
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			rates[name] = append(rates[name], float64(n)/time.Since(began).Seconds())
		}
	}
	for _, name := range libraries {
		r.add(name, "rate", median(rates[name]))
	}
	r.compare("rate", libraries, libraries[len(libraries)-1])
	return nil
}

// guardedWrites compares a write under a claim, and in an epoch, with the same write without a check.
var guardedWrites = &benchCase{
	name: "guarded-writes", servers: []int{1, 3},
	about: "A holder writes state in ZooKeeper with Commit, which checks the claim in the same transaction, and with a plain Set.",
	round: func(r *round) error {
		client, err := connect(r, r.server(0), quiet, nil, nil)
		if err != nil {
			return err
		}
		r.cleanup(func() { _ = client.Close() })
		conn, err := dialBare(r, r.server(0), quiet, new(traffic))
		if err != nil {
			return err
		}
		r.cleanup(conn.Close)
		mu, err := lock.New(client, r.path(), nil)
		if err != nil {
			return err
		}
		hold, err := mu.Lock(r)
		if err != nil {
			return err
		}
		leading := r.path()
		e, err := election.New(client, leading, nil)
		if err != nil {
			return err
		}
		term, err := e.Campaign(r)
		if err != nil {
			return err
		}
		epochs, err := epoch.New(client, leading+"-epoch", nil)
		if err != nil {
			return err
		}
		began, err := epochs.Claim(r, term.Claim)
		if err != nil {
			return err
		}
		state := r.path()
		if err := r.parent(state); err != nil {
			return err
		}
		data := []byte("some data of a leader")
		write := func(set func(context.Context) error) func() (int, error) {
			return func() (int, error) {
				for range 20 {
					if err := set(r); err != nil {
						return 0, err
					}
				}
				return 20, nil
			}
		}
		request := &zk.SetDataRequest{Path: state, Data: data, Version: -1}
		return r.turns([]string{"Claim.Commit", "Epoch.Commit", bare}, map[string]func() (int, error){
			"Claim.Commit": write(func(ctx context.Context) error { _, err := hold.Commit(ctx, request); return err }),
			"Epoch.Commit": write(func(ctx context.Context) error { _, err := began.Commit(ctx, request); return err }),
			bare:           write(func(context.Context) error { _, err := conn.Set(state, data, -1); return err }),
		})
	},
}

// simulatedServer compares zktest's server with a real one.
var simulatedServer = &benchCase{
	name: "zktest", servers: []int{1},
	about: "64 connections create, write, read and delete nodes on a server of zktest, and on a real one: how fast tests run on zktest.",
	round: func(r *round) error {
		e, err := zktest.Run(r, nil)
		if err != nil {
			return err
		}
		r.cleanup(func() { _ = e.Close() })
		operations := map[string]func() (int, error){}
		for name, server := range map[string]string{"zktest": e.Addrs()[0], "ZooKeeper": r.server(0)} {
			var conns []*zk.Conn
			for range 64 {
				conn, err := dialBare(r, server, quiet, new(traffic))
				if err != nil {
					return err
				}
				r.cleanup(conn.Close)
				conns = append(conns, conn)
			}
			path := r.path()
			operations[name] = func() (int, error) {
				const times, requests = 5, 4
				return len(conns) * times * requests, together(len(conns), func(i int) error {
					for range times {
						if err := exercise(conns[i], fmt.Sprintf("%s-%d", path, i)); err != nil {
							return err
						}
					}
					return nil
				})
			}
		}
		return r.turns([]string{"zktest", "ZooKeeper"}, operations)
	},
}

// exercise creates a node, writes it, reads it and deletes it.
func exercise(conn *zk.Conn, path string) error {
	if _, err := conn.Create(path, []byte("data"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		return err
	}
	if _, err := conn.Set(path, []byte("other data"), 0); err != nil {
		return err
	}
	if _, _, err := conn.Get(path); err != nil {
		return err
	}
	return conn.Delete(path, 1)
}

// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// operations is the number of requests of exercise.
const operations = 4

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

// BenchmarkZktest compares zktest's server with a real one, in the same run. An op is one request, and the ratio compares its
// rate to the real server's.
func BenchmarkZktest(b *testing.B) {
	for _, clients := range []int{1, 64} {
		b.Run(fmt.Sprint("clients=", clients), func(b *testing.B) {
			s, e := onOne(b), zktest.Start(b, &zktest.Options{})
			require.NoError(b, e.Create("/bench", nil))
			parent := s.parent("bench")
			var ours, real []*zk.Conn
			for range clients {
				conn := s.Bare(e.Addrs()...)
				b.Cleanup(conn.Close)
				ours = append(ours, conn)
				real = append(real, s.bareAt(0))
			}
			run := func(conns []*zk.Conn, parent string) func() int {
				return func() int {
					return operations * together(b, clients, 20, func(i int) error {
						return exercise(conns[i], fmt.Sprintf("%s/%d", parent, i))
					})
				}
			}
			ratio(b, run(ours, "/bench"), run(real, parent))
		})
	}
}

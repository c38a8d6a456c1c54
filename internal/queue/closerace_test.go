// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A ZooKeeper client that is closed returns the path of a container from an answer that its reader may be decoding (go-zookeeper
// v1.0.4: Conn.CreateContainer). The race detector reports that.
func TestAnswersThatArriveDuringCloseAreNotReadWhileTheyAreDecoded(t *testing.T) {
	servers := zktest.Start(t, nil)
	for range 30 {
		client, err := recipes.Connect(t.Context(), servers.Addrs(), nil)
		require.NoError(t, err)
		var calls sync.WaitGroup
		began := make(chan struct{}, 1000)
		for i := range 10 {
			calls.Go(func() {
				for n := 0; ; n++ {
					node, err := recipes.NewNode(client, fmt.Sprintf("/%d-%d/n", i, n))
					if err == nil {
						err = node.Create(t.Context(), nil)
					}
					if err != nil {
						return
					}
					select {
					case began <- struct{}{}:
					default:
					}
				}
			})
		}
		<-began
		client.Close()
		calls.Wait()
	}
}

// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// The read of the node can fail before the end of the session has ended the claim.
func TestUpdateWhoseSessionEndsDuringItsReadReportsTheLossOfItsClaim(t *testing.T) {
	for range 50 {
		withServers(t, func(s servers) {
			client, link := s.connect()
			claim := s.claim(client)
			s.must(s.Create("/a", nil))
			node := s.node(client, "/a")
			link.Intercept(zktest.Rule{Op: "getData", Path: "/a", Hold: zktest.ToClient})
			updated := make(chan error)
			go func() {
				_, err := node.Update(s.Context(), claim, becomes("one"))
				updated <- err
			}()
			synctest.Wait()
			s.must(s.Expire(s.Context(), client.SessionID()))
			err := <-updated
			require.ErrorIs(s, err, recipes.ErrLost)
			require.ErrorIs(s, err, recipes.ErrSessionExpired)
			require.NotErrorIs(s, err, recipes.ErrUncertain, "nothing was sent to be written")
		})
	}
}

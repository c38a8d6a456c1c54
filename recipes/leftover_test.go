// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
)

func TestClientForgetsEndedRegistrationsOfPathsThatAreNotUsedAgain(t *testing.T) {
	for _, ends := range []bool{false, true} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			link := s.Link()
			opts := s.options()
			opts.Dial = link.Dial
			client := s.connect(opts)
			var all []*Registration
			for i := range 10 {
				r, err := Register(t.Context(), client, fmt.Sprintf("/members/%d", i), nil, &RegistrationOptions{ReleaseTimeout: time.Millisecond})
				require.NoError(t, err)
				all = append(all, r)
			}
			link.Refuse(true)
			link.Reset()
			time.Sleep(time.Millisecond)
			for _, r := range all {
				require.ErrorIs(t, r.Unregister(context.Background()), ErrUncertain)
			}
			require.Equal(t, 10, remembered(client), "their nodes may exist")
			if ends {
				time.Sleep(10 * client.SessionTimeout()) // the session ends
			}
			link.Refuse(false)
			time.Sleep(4 * client.SessionTimeout())
			require.Zero(t, remembered(client))
		})
	}
}

// remembered returns how many registrations the client keeps.
func remembered(c *Client) int {
	registered.Of(engineOf(c)).mu.Lock()
	defer registered.Of(engineOf(c)).mu.Unlock()
	return len(registered.Of(engineOf(c)).byPath)
}

// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServersOfALoopbackHaveDifferentPorts(t *testing.T) {
	for range 300 {
		l, err := loopback(5, errors.New("none"))
		require.NoError(t, err)
		ports := map[string]bool{}
		for _, p := range l.places {
			ports[p.client], ports[p.quorum], ports[p.election] = true, true, true
		}
		require.Len(t, ports, 15)
	}
}

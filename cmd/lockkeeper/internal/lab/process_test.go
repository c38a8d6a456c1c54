// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestContenderThatCannotConnectEndsWithItsOrders(t *testing.T) {
	text, err := json.Marshal(task{Name: "a", Servers: []string{"127.0.0.1:1"}, Timeout: timeout})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- contend(string(text), strings.NewReader("join\nleave\njoin\n"), io.Discard) }()
	select {
	case err := <-ended:
		require.ErrorContains(t, err, "contender a: ")
	case <-time.After(patience):
		require.Fail(t, "it waits for a server")
	}
}

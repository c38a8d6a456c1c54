// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/sentinel"
)

func TestErrorRevealsOutcomeAndWhetherRetryMayHelp(t *testing.T) {
	for name, c := range map[string]struct {
		err       error
		outcome   Outcome
		retryable bool
	}{
		"no error":                       {nil, Done, false},
		"server's answer":                {zk.ErrNoNode, Refused, false},
		"session expired":                {zk.ErrSessionExpired, Refused, false},
		"code without name":              {fmt.Errorf("unknown error: -125"), Unknown, false},
		"connection ended":               {zk.ErrConnectionClosed, Unknown, true},
		"network error":                  {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, Unknown, true},
		"end of stream":                  {io.EOF, Unknown, true},
		"no server":                      {zk.ErrNoServer, Unsent, true},
		"answer of stand-in":             {zk.ErrNothing, Unsent, true},
		"throttled by the server":        {zk.ErrAPIError, Unsent, true},
		"invalid path":                   {zk.ErrInvalidPath, Unsent, false},
		"caller ended before sending":    {NotSent(context.DeadlineExceeded), Unsent, false},
		"unsent, with cause like answer": {NotSent(zk.ErrNoNode), Unsent, false},
		"unsent, with broken connection": {NotSent(io.EOF), Unsent, false},
		"caller ended before answer":     {fmt.Errorf("%w: %w", sentinel.ErrUncertain, context.DeadlineExceeded), Unknown, false},
		"uncertain, with refusal":        {fmt.Errorf("%w: %w", sentinel.ErrUncertain, zk.ErrNoAuth), Unknown, false},
		"uncertain, connection ended":    {fmt.Errorf("%w: %w", sentinel.ErrUncertain, zk.ErrConnectionClosed), Unknown, true},
	} {
		require.Equal(t, c.outcome, OutcomeOf(c.err), name)
		require.Equal(t, c.retryable, Retryable(c.err), name)
	}
}

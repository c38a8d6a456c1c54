// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"

	"github.com/go-zookeeper/zk"
)

// Authenticate sends the credentials. Once the first server has accepted them, the
// client repeats them to each further server.
func (s *sender) Authenticate(ctx context.Context) error {
	for _, auth := range s.config.Auth {
		for {
			_, err := Call(ctx, s, func(conn *zk.Conn) (struct{}, error) {
				return struct{}{}, conn.AddAuth(auth.Scheme, auth.Data)
			})
			if err == nil {
				break
			}
			if OutcomeOf(err) != Unknown || ctx.Err() != nil || s.Ended() != nil {
				return s.Fail("authenticate", auth.Scheme, err)
			}
		}
	}
	return nil
}

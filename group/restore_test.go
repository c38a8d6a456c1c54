// SPDX-License-Identifier: Apache-2.0

package group_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// Revisions of an ensemble that has lost its data are given again.
func TestObserveYieldsTheMemberThatHasTheRevisionOfTheLastOneAfterAWipe(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q, o := s.process(), s.process(), s.process()
		f := o.follow(s.Context())
		f.requireNext(s, nil, nil, nil)
		s.pad("/before-", 100)
		p.join("x", "1")
		former := f.requireNext(s, []string{"x"}, nil, nil).Members[0]
		p.link.Refuse(true)
		o.link.Refuse(true)
		session := q.client.SessionID()
		s.must(s.Server(1).Wipe())
		s.must(s.WaitServing(s.Context()))
		s.must(s.Create(path, nil))
		for q.client.SessionID() == session {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(timeout)
		s.pad("/after-", former.Joined-1)
		q.join("x", "1")
		require.Equal(s, former.Joined, q.members().Members[0].Joined)
		o.link.Refuse(false)
		change := f.requireNext(s, []string{"x"}, []string{"x"}, nil)
		require.Equal(s, q.client.SessionID(), change.Members[0].Session)
	})
}

// pad creates nodes until the last transaction has that zxid.
func (s servers) pad(prefix string, zxid int64) {
	s.Helper()
	for s.Zxid() < zxid {
		s.must(s.Create(fmt.Sprint(prefix, s.Zxid()), nil))
	}
	require.Equal(s, zxid, s.Zxid())
}

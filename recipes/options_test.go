// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/ownerlabel"
	"github.com/lockkeeper/lockkeeper/internal/session"
)

func TestOptionsThatCannotBeMeantAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		opts Options
		why  string
	}{
		"negative session timeout":   {Options{SessionTimeout: -time.Second}, "session timeout -1s is below the minimum of 1s"},
		"short session timeout":      {Options{SessionTimeout: 999 * time.Millisecond}, "session timeout 999ms is below the minimum of 1s"},
		"small replies":              {Options{MaxReply: 65535}, "largest reply of 65535 bytes: must be 65536 to 1572864, or 0 for any size"},
		"large replies":              {Options{MaxReply: 1536<<10 + 1}, "largest reply of 1572865 bytes: must be 65536 to 1572864, or 0 for any size"},
		"negative replies":           {Options{MaxReply: -1}, "largest reply of -1 bytes: must be 65536 to 1572864, or 0 for any size"},
		"endless session timeout":    {Options{SessionTimeout: 600 * time.Hour}, "session timeout 600h0m0s is above the maximum of 596h31m23.647s"},
		"relative namespace":         {Options{Namespace: "team"}, `namespace: path "team" is not absolute`},
		"namespace with a slash":     {Options{Namespace: "/team/"}, `namespace: path "/team/" has an empty segment`},
		"namespace of the root":      {Options{Namespace: "/"}, `namespace: path "/" is the root`},
		"ACL without a scheme":       {Options{ACL: []zk.ACL{{Perms: zk.PermAll, ID: "anyone"}}}, "ACL entry {Perms:31 Scheme: ID:anyone}"},
		"ACL without permissions":    {Options{ACL: []zk.ACL{{Scheme: "world", ID: "anyone"}}}, "ACL entry {Perms:0 Scheme:world ID:anyone}"},
		"ACL of unknown permissions": {Options{ACL: zk.WorldACL(64)}, "ACL entry {Perms:64"},
		"credential without scheme":  {Options{Auth: []Auth{Digest("a", "b"), {Data: []byte("secret")}}}, "credential without a scheme"},
		"SASL":                       {Options{Auth: []Auth{{Scheme: "sasl"}}}, `credential of scheme "sasl": use Options.SASL`},
	} {
		_, err := c.opts.check([]string{"zk1"})
		require.ErrorContains(t, err, c.why, name)
		require.NotContains(t, err.Error(), "secret", "credentials stay out of errors")
	}
}

func TestZeroOptionsMeanTheDefaults(t *testing.T) {
	for _, opts := range []*Options{nil, {}} {
		s, err := opts.check([]string{"zk1"})
		require.NoError(t, err)
		require.Equal(t, []string{"zk1:2181"}, s.Servers)
		require.Equal(t, 10*time.Second, s.SessionTimeout)
		require.Equal(t, zk.WorldACL(zk.PermAll), s.ACL)
		require.Empty(t, s.Namespace)
		require.NotNil(t, s.Logger)
		require.NotNil(t, s.Dial)
		require.Nil(t, s.TLS)
	}
}

func TestOptionsAreTakenAsTheyAre(t *testing.T) {
	acl := zk.DigestACL(zk.PermAll, "user", "password")
	opts := &Options{
		SessionTimeout: time.Second, Namespace: "/team-a", ACL: acl, Auth: []Auth{Digest("user", "pass:word")}, TLS: &tls.Config{ServerName: "zk"},
	}
	s, err := opts.check([]string{"zk1"})
	require.NoError(t, err)
	require.Equal(t, time.Second, s.SessionTimeout)
	require.Equal(t, "/team-a", s.Namespace)
	require.Equal(t, acl, s.ACL)
	require.Equal(t, []session.Auth{{Scheme: "digest", Data: []byte("user:pass:word")}}, s.Auth)
	require.Same(t, opts.TLS, s.TLS)

	opts.ACL[0].Perms = zk.PermRead
	require.Equal(t, int32(zk.PermAll), s.ACL[0].Perms, "later changes of the options change nothing")
}

func TestChrootIsThePrefixOfTheNamespace(t *testing.T) {
	for _, c := range []struct{ servers, namespace, want string }{
		{"zk1:2181,zk2:2181/app", "", "/app"},
		{"zk1:2181,zk2:2181/app", "/team-a", "/app/team-a"},
		{"zk1:2181,zk2:2181/", "/team-a", "/team-a"},
	} {
		s, err := (&Options{Namespace: c.namespace}).check([]string{c.servers})
		require.NoError(t, err)
		require.Equal(t, []string{"zk1:2181", "zk2:2181"}, s.Servers)
		require.Equal(t, c.want, s.Namespace)
	}
	_, err := (&Options{Namespace: "/zookeeper"}).check([]string{"zk1/app"})
	require.ErrorContains(t, err, `namespace: path "/zookeeper" belongs to ZooKeeper`)
}

func TestOwnerOfAClientThatGivesNoneIsHostAndProcess(t *testing.T) {
	s, err := (&Options{}).check([]string{"zk1"})
	require.NoError(t, err)
	require.Equal(t, ownerlabel.Default(), s.Owner)
	_, err = (&Options{Owner: strings.Repeat("o", 4097)}).check([]string{"zk1"})
	require.ErrorContains(t, err, "owner label of 4097 bytes is over the limit of 4096")
}

// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"crypto/md5"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// users are the users of the servers with a SASL configuration.
var users = map[string]string{"bob": "sécret", "ann": "other"}

const jaas = `Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  user_bob="sécret"
  user_ann="other";
};
`

// login sends the tokens of an exchange. change alters the second one; nil leaves it.
func (p *client) login(user, password string, change func(token string) string) {
	challenge := p.do(wire.SASL{Token: []byte{}})
	nonce := regexp.MustCompile(`nonce="([^"]*)"`).FindSubmatch(challenge.Body)
	require.NotNil(p.run.t, nonce, "%s: %q", p.run.server.name, challenge.Body)
	hash := func(s string) string { sum := md5.Sum([]byte(s)); return string(sum[:]) }
	hexed := func(s string) string { return fmt.Sprintf("%x", hash(s)) }
	password = strings.ReplaceAll(password, "é", "\xe9")
	tail := fmt.Sprintf(":%s:00000001:cnonce:auth:%s", nonce[1], hexed("AUTHENTICATE:zookeeper/zk-sasl-md5"))
	response := hexed(hexed(hash(user+":zk-sasl-md5:"+password)+fmt.Sprintf(":%s:cnonce", nonce[1])) + tail)
	token := fmt.Sprintf(`charset=utf-8,username="%s",realm="zk-sasl-md5",nonce="%s",nc=00000001,cnonce="cnonce",`+
		`digest-uri="zookeeper/zk-sasl-md5",maxbuf=65536,response=%s,qop=auth`, user, nonce[1], response)
	if change != nil {
		token = change(token)
	}
	p.do(wire.SASL{Token: []byte(token)})
}

// saslScenarios need a real server with a SASL configuration.
var saslScenarios = []scenario{
	{"a user logs in", func(s *run) {
		a := s.session("a")
		a.login("bob", "sécret", nil)
		a.do(wire.WhoAmI{})
		for _, acl := range []wire.ACL{acl("sasl", "bob", wire.PermAll), acl("auth", "", wire.PermAll)} {
			a.do(createACL("/probe/n", acl, keeper))
			a.do(getACL("/probe/n"))
			a.do(get("/probe/n"))
			b := s.session("b")
			b.do(get("/probe/n"))
			b.login("ann", "other", nil)
			b.do(get("/probe/n"))
			a.do(deletion("/probe/n", -1))
		}
		c := s.dial("c")
		c.attach(a)
		c.do(wire.WhoAmI{})
	}},
	{"wrong credentials end the connection", func(s *run) {
		for i, change := range []struct{ part, by string }{
			{"", ""},
			{`"bob"`, `"eve"`},
			{`"bob"`, `"ann"`},
			{"nc=00000001", "nc=00000002"},
			{"nc=00000001,", ""},
			{"nc=00000001", "nc=00000001,nc=00000001"},
			{"zookeeper/", "kafka/"},
			{"qop=auth", "qop=auth-int"},
			{`realm="zk-sasl-md5"`, `realm="x"`},
			{`realm="zk-sasl-md5",`, ""},
			{`cnonce="cnonce",`, ""},
			{"charset=utf-8,", ""},
			{",qop=auth", ""},
			{"qop=auth", `qop="auth"`},
			{"charset", "nonsense,charset"},
			{"charset", "x=y,charset"},
			{"charset=utf-8", ", charset = utf-8 "},
			{`username="bob"`, `username="bob",username="eve"`},
			{`username="bob"`, `username="eve",username="bob"`},
			{`username="bob"`, `UserName="bob"`},
			{`username="bob"`, `username=bob`},
			{`cnonce="cnonce"`, `cnonce=cnonce`},
			{"zookeeper/zk-sasl-md5", "ZooKeeper/zk-sasl-md5"},
		} {
			a := s.session(fmt.Sprint("a", i))
			password := "sécret"
			if change.part == "" {
				password = "secret"
			}
			a.login("bob", password, func(token string) string {
				require.Contains(s.t, token, change.part)
				return strings.Replace(token, change.part, change.by, 1)
			})
			a.do(exists(root))
		}
	}},
	{"an exchange has two tokens of the client", func(s *run) {
		a, b, c := s.session("a"), s.session("b"), s.session("c")
		a.do(wire.SASL{Token: []byte("initial response")})
		a.do(exists(root))
		b.do(wire.SASL{Token: []byte{}})
		b.do(wire.SASL{Token: []byte{}})
		b.do(exists(root))
		c.login("bob", "sécret", nil)
		c.do(wire.SASL{Token: []byte{}})
		c.do(exists(root))
	}},
	{"a null token ends the connection", func(s *run) {
		a := s.session("a")
		a.do(wire.SASL{})
		a.do(exists(root))
	}},
	{"an ACL may name users and principals", func(s *run) {
		a := s.session("a")
		for i, id := range []string{"", "x", "x/y", "x/y@Z", "x@Z", "x@", "@", "x@y@z", "x/y/z", "x/y/z@Z", "x@y/z"} {
			path := fmt.Sprint("/probe/n", i)
			a.do(createACL(path, acl("sasl", id, wire.PermAll), keeper))
			a.do(getACL(path))
		}
	}},
}

func TestZktestAnswersLoginsAsZooKeeperDoes(t *testing.T) {
	reference := extended.server(t)
	double, _ := startZktest(t, reference, users, false)
	compareAll(t, saslScenarios, reference, double)
}

// A server without a SASL configuration answers each token with a null token.
func TestZktestWithoutUsersAnswersLoginsAsZooKeeperDoes(t *testing.T) {
	reference, double := both(t)
	requireSame(t, scenario{"a token is answered by a null token", func(s *run) {
		a := s.session("a")
		a.do(wire.SASL{Token: []byte("token")})
		a.do(exists(root))
		a.do(createACL("/probe/n", acl("sasl", "bob", wire.PermAll)))
	}}, reference, double)
}

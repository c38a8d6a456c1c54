// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// subjects are subjects of certificates, their parts in the order of the encoding.
var subjects = []pkix.RDNSequence{
	{{part(2, 5, 4, 3)("ann")}},
	{{part(2, 5, 4, 3)("bob")}},
	{{part(2, 5, 4, 6)("DE")}, {part(2, 5, 4, 8)("BE")}, {part(2, 5, 4, 7)("Berlin")}, {part(2, 5, 4, 9)("A 1")}, {part(2, 5, 4, 10)("Org")}, {part(2, 5, 4, 11)("Unit")}, {part(2, 5, 4, 3)("all")}},
	{{part(2, 5, 4, 3)("first")}, {part(2, 5, 4, 10)("Org")}, {part(2, 5, 4, 3)("second")}},
	{{part(0, 9, 2342, 19200300, 100, 1, 25)("org")}, {part(0, 9, 2342, 19200300, 100, 1, 25)("example")}, {part(0, 9, 2342, 19200300, 100, 1, 1)("worker")}},
	{{part(2, 5, 4, 10)("Org"), part(2, 5, 4, 3)("with several values")}},
	{{part(2, 5, 4, 5)("7")}, {part(2, 5, 4, 17)("10115")}, {part(1, 2, 840, 113549, 1, 9, 1)("a@example.org")}, {part(2, 5, 4, 4)("Surname")}, {part(2, 5, 4, 12)("title")}, {part(2, 5, 4, 3)("numbers")}},
	{{part(2, 5, 4, 3)(" blanks at both ends ")}},
	{{part(2, 5, 4, 3)("  ")}},
	{{part(2, 5, 4, 3)(`a,b+c"d\e<f>g;h=i#j`)}},
	{{part(2, 5, 4, 3)("#1")}},
	{{part(2, 5, 4, 3)("grün ü 漢")}},
	{{part(2, 5, 4, 3)("a/b:c@d*e'f(g)h?i!j")}},
	{{part(2, 5, 4, 3)("")}, {part(2, 5, 4, 10)("empty name")}},
	{{part(2, 5, 4, 3)("tab\tand\x7f")}},
	{{part(2, 5, 4, 3)(encoded(asn1.TagIA5String, "IA5"))}, {part(2, 5, 4, 10)(encoded(asn1.TagT61String, "T61"))}},
	{{part(2, 5, 4, 3)(encoded(asn1.TagNumericString, "12"))}, {part(2, 5, 4, 10)(encoded(asn1.TagBMPString, "\x00B\x00M"))}},
}

func part(of ...int) func(value any) pkix.AttributeTypeAndValue {
	return func(value any) pkix.AttributeTypeAndValue {
		return pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier(of), Value: value}
	}
}

func encoded(tag int, text string) asn1.RawValue { return asn1.RawValue{Tag: tag, Bytes: []byte(text)} }

// subjectNames are the ids of ACLs that the servers accept or refuse.
var subjectNames = []string{
	"", "CN=x", "cn=x", "CN = x", " CN=x ", "CN=x,O=y", "CN=x, O=y", "CN=x;O=y", "CN=x+O=y", "CN=x,", ",CN=x", "CN=x,,O=y", "x", "CN", "=x", "CN=",
	"FOO=x", "1.2.3=x", "OID.1.2.3=x", "oid.1.2.3=x", "1=x", "3.1=x", "1.40=x", "2.40=x", "1.2.=x", "1..2=x", "CN=#04020102", "CN=#", "CN=#0", "CN=#zz", `CN="x,y"`,
	`CN="x" `, `CN="x"y`, `CN="x`, `CN=x"y`, `CN=x\,y`, `CN=x\`, `CN=x\y`, `CN=x\41`, `CN=x\4`, "CN=x=y", "CN=x#y", "CN=x<y", "CN=x>y", `CN=x\<y`, `CN=\ x\ `,
	"emailAddress=a@b", "serialNumber=1", "postalCode=1", "UID=x,DC=y", "SURNAME=x", "T=x", "IP=x", "S=x", "GIVENNAME=x", "DNQ=x", "CN=ü", "CN=x\ny", "CN=\nx", "CN=x\x00",
}

// An issuer has the certificates of the servers and of the scenarios' clients, of one authority.
type issuer struct {
	pool    *x509.CertPool
	server  tls.Certificate
	clients []tls.Certificate // of subjects
}

// certified returns a client with a new session and the certificate of subjects[i].
func (s *run) certified(name string, i int) *client {
	p := s.dialBy(name, func() (net.Conn, error) { return s.server.secure(i) })
	p.connect(sessionTimeout)
	return p
}

// certificateScenarios need a real server with TLS. The clients of session and dial have no certificate.
var certificateScenarios = []scenario{
	{"the subject of a certificate is an identity", func(s *run) {
		s.session("none").do(wire.WhoAmI{})
		for i := range subjects {
			p := s.certified(fmt.Sprint("p", i), i)
			p.do(wire.WhoAmI{})
			p.do(createACL(fmt.Sprint("/probe/n", i), acl("auth", "", wire.PermAll), keeper))
			p.do(getACL(fmt.Sprint("/probe/n", i)))
			p.do(get(fmt.Sprint("/probe/n", i)))
		}
	}},
	{"a certificate grants access", func(s *run) {
		none, ann, bob := s.session("none"), s.certified("ann", 0), s.certified("bob", 1)
		ann.do(createACL("/probe/n", acl("x509", "CN=ann", wire.PermAll), keeper))
		for _, p := range []*client{none, ann, bob} {
			p.do(get("/probe/n"))
			p.do(getACL("/probe/n"))
			p.do(set("/probe/n", -1))
		}
		ann.do(setACL("/probe/n", -1, acl("x509", "cn=bob", wire.PermAll), acl("x509", "CN=ann", wire.PermAdmin), keeper))
		bob.do(get("/probe/n"))
		ann.do(setACL("/probe/n", -1, acl("x509", "CN=bob", wire.PermAll), keeper))
		ann.do(get("/probe/n"))
		bob.do(get("/probe/n"))
		none.do(createACL("/probe/m", acl("auth", "", wire.PermAll), keeper))
	}},
	{"a certificate belongs to the connection", func(s *run) {
		ann := s.certified("ann", 0)
		ann.do(createACL("/probe/n", acl("auth", "", wire.PermAll), keeper))
		none := s.dial("none")
		none.attach(ann)
		none.do(get("/probe/n"))
		none.do(wire.WhoAmI{})
		bob := s.dialBy("bob", func() (net.Conn, error) { return s.server.secure(1) })
		bob.attach(none)
		bob.do(get("/probe/n"))
		bob.do(wire.WhoAmI{})
	}},
	{"a request for the scheme x509 needs a certificate", func(s *run) {
		ann := s.certified("ann", 0)
		ann.do(auth("x509", "CN=bob"))
		ann.do(wire.Auth{Scheme: "x509"})
		ann.do(wire.WhoAmI{})
		none := s.session("none")
		none.do(auth("x509", "CN=ann"))
		none.do(exists(root))
	}},
	{"an ACL may name subjects", func(s *run) {
		p := s.session("p")
		for i, name := range subjectNames {
			path := fmt.Sprint("/probe/n", i)
			p.do(createACL(path, acl("x509", name, wire.PermAll), keeper))
			p.do(getACL(path))
		}
	}},
}

func TestZktestKnowsClientsByTheirCertificatesAsZooKeeperDoes(t *testing.T) {
	reference, by := extended.server(t), extended.issuer
	secure := extended.secureAddress
	const tick = 400 * time.Millisecond
	ensemble := zktest.Start(t, &zktest.Options{Tick: tick, TLS: &tls.Config{
		Certificates: []tls.Certificate{by.server},
		ClientAuth:   tls.VerifyClientCertIfGiven, ClientCAs: by.pool,
	}})
	double := server{name: "zktest", minTimeout: int32(2 * tick.Milliseconds()), maxTimeout: int32(20 * tick.Milliseconds())}
	compareAll(t, certificateScenarios, by.secured(reference, secure), by.secured(double, ensemble.Addrs()[0]))
}

// serverName is the name in the servers' certificate.
const serverName = "zookeeper.example.org"

// secured returns the server with connections to its port for TLS: dial makes them without a certificate.
func (by *issuer) secured(s server, address string) server {
	dial := func(certificates ...tls.Certificate) (net.Conn, error) {
		return tls.DialWithDialer(&net.Dialer{Timeout: maxWait}, "tcp", address,
			&tls.Config{RootCAs: by.pool, ServerName: serverName, Certificates: certificates})
	}
	s.dial = func() (net.Conn, error) { return dial() }
	s.secure = func(i int) (net.Conn, error) { return dial(by.clients[i]) }
	return s
}

// SPDX-License-Identifier: Apache-2.0

// Package digestmd5 computes the client's side of SASL's mechanism DIGEST-MD5 (RFC 2831), as
// ZooKeeper's servers speak it: quality of protection "auth", and a fixed service.
package digestmd5

import (
	"crypto/md5" //nolint:gosec // what the mechanism is defined by
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// URI is the service that every ZooKeeper server calls itself, whatever its host.
const URI = "zookeeper/zk-sasl-md5"

// A Response is the client's answer to a challenge.
type Response struct {
	Token []byte // for the server
	proof string // that only a server that knows the password can send
}

// Respond answers the challenge of a server. cnonce is a random text that the client uses once,
// of characters that need no quotes.
func Respond(challenge []byte, user, password, cnonce string) (*Response, error) {
	given, err := parse(challenge)
	if err != nil {
		return nil, fmt.Errorf("challenge: %w", err)
	}
	nonce, realm := given.first("nonce"), given.first("realm")
	qop := strings.Split(given.first("qop"), ",")
	for i := range qop {
		qop[i] = strings.TrimSpace(qop[i])
	}
	switch algorithm := given.first("algorithm"); {
	case nonce == "":
		return nil, errors.New("challenge: no nonce")
	case algorithm != "md5-sess":
		return nil, fmt.Errorf("challenge: algorithm %q: must be md5-sess", algorithm)
	case given.has("qop") && !slices.Contains(qop, "auth"):
		return nil, fmt.Errorf("challenge: quality of protection %q: must include auth", given.first("qop"))
	}
	utf8 := strings.EqualFold(given.first("charset"), "utf-8")
	secret := md5.Sum([]byte(legacy(user) + ":" + legacy(realm) + ":" + legacy(password))) //nolint:gosec // as above
	session := md5Hex(string(secret[:]) + ":" + nonce + ":" + cnonce)
	digest := func(method string) string {
		return md5Hex(session + ":" + nonce + ":00000001:" + cnonce + ":auth:" + md5Hex(method+":"+URI))
	}
	var b strings.Builder
	name := user
	if utf8 {
		b.WriteString("charset=utf-8,")
	} else {
		name, realm = legacy(user), legacy(realm)
	}
	fmt.Fprintf(&b, "username=%s,", quote(name))
	if given.has("realm") {
		fmt.Fprintf(&b, "realm=%s,", quote(realm))
	}
	fmt.Fprintf(&b, `nonce=%s,nc=00000001,cnonce="%s",digest-uri="%s",response=%s,qop=auth`, quote(nonce), cnonce, URI, digest("AUTHENTICATE"))
	return &Response{Token: []byte(b.String()), proof: digest("")}, nil
}

// Verify returns an error unless the server's last token proves that it knows the password.
func (r *Response) Verify(token []byte) error {
	given, err := parse(token)
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	if given.first("rspauth") != r.proof {
		return errors.New("answer: the server did not prove that it knows the password")
	}
	return nil
}

func md5Hex(s string) string {
	sum := md5.Sum([]byte(s)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

// legacy returns s in ISO 8859-1 if that has all its characters, as the mechanism demands of what
// is hashed, and s itself in UTF-8 if not.
func legacy(s string) string {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return s
		}
		b = append(b, byte(r))
	}
	return string(b)
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

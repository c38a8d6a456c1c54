// SPDX-License-Identifier: Apache-2.0

// Package sasl implements the server's side of SASL's mechanism DIGEST-MD5 (RFC 2831) as a
// ZooKeeper server has it, from the JDK: quality of protection "auth" only, one realm, no
// subsequent authentication.
package sasl

import (
	"crypto/md5" //nolint:gosec // what the mechanism is defined by
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	realm       = "zk-sasl-md5"
	uri         = "zookeeper/" + realm
	maxResponse = 4096
)

// ErrRefused is the cause of every error of a Server.
var ErrRefused = errors.New("refused")

// A Server is the server's side of one exchange.
type Server struct {
	users map[string]string // their passwords
	nonce string
	step  int // 0: the challenge was not sent; 1: it was; 2: the exchange has ended
}

// NewServer returns the server of an exchange with one of the users, by name with their passwords.
// nonce is a random text of characters that need no quotes.
func NewServer(users map[string]string, nonce string) *Server {
	return &Server{users: users, nonce: nonce}
}

// Step takes a token of the client, and returns the server's answer. user is the name of the client
// once the exchange has succeeded, and "" before that.
func (s *Server) Step(token []byte) (answer []byte, user string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrRefused, err)
			s.step = 2
		}
	}()
	s.step++
	switch {
	case len(token) > maxResponse:
		return nil, "", fmt.Errorf("token of %d bytes: must be %d at most", len(token), maxResponse)
	case s.step == 1: // an initial response is ignored, as the JDK does
		return fmt.Appendf(nil, `realm="%s",nonce="%s",charset=utf-8,algorithm=md5-sess`, realm, s.nonce), "", nil
	case s.step == 2:
		return s.verify(token)
	}
	return nil, "", errors.New("exchange has ended")
}

// verify checks the client's response to the challenge.
func (s *Server) verify(token []byte) (answer []byte, user string, err error) {
	r, err := parse(string(token))
	if err != nil {
		return nil, "", err
	}
	user = r["username"]
	if r["charset"] == "" {
		user = fromISO88591(user)
	}
	for _, c := range []struct{ name, want string }{
		{"realm", realm}, {"nonce", s.nonce}, {"qop", "auth"},
	} {
		if got, given := r[c.name]; got != c.want && (given || c.name != "qop") {
			return nil, "", fmt.Errorf("%s %q: must be %q", c.name, got, c.want)
		}
	}
	switch {
	case !strings.EqualFold(r["digest-uri"], uri):
		return nil, "", fmt.Errorf("digest-uri %q: must be %q", r["digest-uri"], uri)
	case r["cnonce"] == "":
		return nil, "", errors.New("no cnonce")
	}
	password, known := s.users[user]
	if !known {
		return nil, "", fmt.Errorf("user %q: no such user", user)
	}
	digest := func(method string) string {
		secret := md5.Sum([]byte(toISO88591(user) + ":" + realm + ":" + toISO88591(password))) //nolint:gosec // as above
		session := md5Hex(string(secret[:]) + ":" + s.nonce + ":" + r["cnonce"])
		return md5Hex(session + ":" + s.nonce + ":00000001:" + r["cnonce"] + ":auth:" + md5Hex(method+":"+r["digest-uri"]))
	}
	if subtle.ConstantTimeCompare([]byte(digest("AUTHENTICATE")), []byte(r["response"])) != 1 {
		return nil, "", fmt.Errorf("user %q: wrong password", user)
	}
	return []byte("rspauth=" + digest("")), user, nil
}

func md5Hex(s string) string {
	sum := md5.Sum([]byte(s)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

// toISO88591 returns s in that encoding if it has all its characters, otherwise s.
func toISO88591(s string) string {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return s
		}
		b = append(b, byte(r))
	}
	return string(b)
}

func fromISO88591(s string) string {
	r := make([]rune, 0, len(s))
	for i := range len(s) {
		r = append(r, rune(s[i]))
	}
	return string(r)
}

// single are the directives that may come only once. The JDK does not look at others, nc among them.
var single = []string{"username", "realm", "nonce", "cnonce", "response", "digest-uri", "charset", "qop", "maxbuf"}

// parse reads name=value and name="value", separated by commas.
func parse(s string) (map[string]string, error) {
	all := make(map[string]string)
	for s = strings.TrimLeft(s, " \t\r\n,"); s != ""; s = strings.TrimLeft(s, " \t\r\n,") {
		name, rest, found := strings.Cut(s, "=")
		name = strings.TrimSpace(name)
		if !found || name == "" || strings.Contains(name, ",") {
			return nil, fmt.Errorf("%q is not a directive", s)
		}
		value, after, _ := strings.Cut(rest, ",")
		if strings.HasPrefix(rest, `"`) {
			var ended bool
			if value, after, ended = unquote(rest[1:]); !ended {
				return nil, fmt.Errorf("%s: quoted value without an end", name)
			}
		}
		name, s = strings.ToLower(name), after
		if _, twice := all[name]; twice && slices.Contains(single, name) {
			return nil, fmt.Errorf("%s: given twice", name)
		}
		all[name] = strings.TrimSpace(value)
	}
	return all, nil
}

// unquote returns the text before the closing quote, and what follows the quote.
func unquote(s string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '"' {
			return b.String(), s[i+1:], true
		}
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A serverState is what one server answers.
type serverState struct {
	Address string `json:"address"`
	Error   string `json:"error,omitempty"` // why it does not serve; the other fields may be empty then
	Mode    string `json:"mode,omitempty"`
	Version string `json:"version,omitempty"`
	Zxid    string `json:"zxid,omitempty"`

	Ping    seconds `json:"pingSeconds"`           // a round trip
	Write   seconds `json:"writeSeconds"`          // a write through the quorum
	Tick    seconds `json:"tickSeconds,omitempty"` // as configured, or half of Min
	Min     seconds `json:"minSessionTimeoutSeconds"`
	Max     seconds `json:"maxSessionTimeoutSeconds"`
	Granted seconds `json:"sessionTimeoutSeconds"` // for the requested timeout

	estimated bool   // Tick is
	zxid      uint64 // 0 if not known
}

// seconds is a duration that is a number of seconds in JSON.
type seconds time.Duration

// MarshalJSON returns the seconds as a number.
func (s seconds) MarshalJSON() ([]byte, error) { //nolint:unparam // as json.Marshaler has it
	return strconv.AppendFloat(nil, time.Duration(s).Seconds(), 'f', -1, 64), nil
}

// String returns the duration, to about three digits.
func (s seconds) String() string {
	d := time.Duration(s)
	switch {
	case d == 0:
		return "-"
	case d < 10*time.Millisecond:
		return d.Round(time.Microsecond * 10).String()
	}
	return d.Round(time.Millisecond).String()
}

// A prober asks servers for their states.
type prober struct {
	bound      time.Duration // bounds each connection
	encryption *tls.Config   // nil for none
}

// probe asks one server for its state, and for the session timeout that it grants for timeout.
func (p *prober) probe(ctx context.Context, address string, timeout time.Duration) *serverState {
	s := &serverState{Address: address}
	shortest, err := p.greet(ctx, address, time.Millisecond)
	if isTimeout(err) { // the words would take as long
		s.Error = err.Error()
		return s
	}
	s.describe(p.word(ctx, address, "srvr"))
	var longest *greeting
	if err == nil {
		longest, err = p.greet(ctx, address, math.MaxInt32*time.Millisecond)
	}
	if err != nil {
		s.Error = cmp.Or(s.Error, err.Error())
		return s
	}
	s.Ping, s.Write = seconds(min(shortest.ping, longest.ping)), seconds(min(shortest.open, longest.open))
	s.Min, s.Max = seconds(shortest.timeout), seconds(longest.timeout)
	s.Granted = min(max(seconds(timeout), s.Min), s.Max)
	s.zxid = uint64(longest.zxid)
	s.Zxid = fmt.Sprintf("0x%x", s.zxid)

	s.Tick, s.estimated = s.Min/2, true
	if ms := field(p.word(ctx, address, "conf"), `tickTime=(\d+)`); ms != "" {
		n, _ := strconv.Atoi(ms) // the pattern has digits only
		s.Tick, s.estimated = seconds(time.Duration(n)*time.Millisecond), false
	}
	return s
}

// describe sets what the word srvr answers.
func (s *serverState) describe(answer string) {
	s.Mode = field(answer, `(?m)^Mode: (\S+)`)
	s.Version = field(answer, `(?m)^Zookeeper version: ([^\s,]+)`)
	if strings.Contains(answer, "not currently serving requests") {
		s.Error = "it is running but does not serve: it has no leader"
	}
}

// sessionsOf returns the sessions that the word dump lists, nil if it is not answered.
func sessionsOf(answer string) map[string]bool {
	_, list, found := strings.Cut(answer, "SessionTracker dump:")
	list, _, complete := strings.Cut(list, "ephemeral nodes dump:")
	if !found || !complete {
		return nil
	}
	sessions := map[string]bool{}
	for _, id := range regexp.MustCompile(`0x[0-9a-f]+`).FindAllString(list, -1) {
		sessions[id] = true
	}
	return sessions
}

// isTimeout reports whether err is from a connection whose deadline has passed.
func isTimeout(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}

// field returns the first submatch of a pattern in text, empty if there is none.
func field(text, pattern string) string {
	if found := regexp.MustCompile(pattern).FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}

// greet opens and closes one session.
func (p *prober) greet(ctx context.Context, address string, timeout time.Duration) (*greeting, error) {
	conn, err := p.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // the session is closed
	return greet(conn, timeout)
}

// word returns the answer to a four-letter word, empty if there is none.
func (p *prober) word(ctx context.Context, address, name string) string {
	conn, err := p.dial(ctx, address)
	if err != nil {
		return "" // the handshake reports it
	}
	defer conn.Close() //nolint:errcheck // only read from
	if _, err := io.WriteString(conn, name); err != nil {
		return ""
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 64<<20))
	if err != nil || strings.Contains(string(answer), "is not executed because it is not in the whitelist") {
		return ""
	}
	return string(answer)
}

// dial connects to a server.
func (p *prober) dial(ctx context.Context, address string) (net.Conn, error) {
	deadline := time.Now().Add(p.bound)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	dial := (&net.Dialer{}).DialContext
	if p.encryption != nil {
		dial = (&tls.Dialer{Config: p.encryption}).DialContext
	}
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(deadline)
}

// cells returns the state as a row of the table of servers.
func (s *serverState) cells() []string {
	if s.Error != "" {
		return []string{s.Address, "down", "-", "-", "-", "-", "-", "-"}
	}
	tick := s.Tick.String()
	if s.estimated {
		tick = "~" + tick
	}
	return []string{
		s.Address, cmp.Or(s.Mode, "-"), cmp.Or(s.Version, "-"), s.Ping.String(), s.Write.String(), tick,
		fmt.Sprintf("%v of %v to %v", s.Granted, s.Min, s.Max), s.Zxid,
	}
}

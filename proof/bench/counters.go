// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Counters are what the servers have counted: packets from and to their clients, and the newest transaction of the ensemble.
type counters struct{ received, sent, transactions int64 }

// counters asks all servers. They count each question and its answer as well, which are not part of the result.
func (r *round) counters() (c counters, err error) {
	for _, server := range r.addrs {
		stats, err := r.ask(server, "srvr")
		if err != nil {
			return c, err
		}
		c.received += number(stats["Received"]) - r.asked[server]
		c.sent += number(stats["Sent"]) - r.asked[server]
		c.transactions = max(c.transactions, number(stats["Zxid"]))
	}
	return c, nil
}

// watches returns how many watches are set.
func (r *round) watches() (n int64, err error) {
	for _, server := range r.addrs {
		stats, err := r.ask(server, "wchs")
		if err != nil {
			return 0, err
		}
		n += number(stats["Total watches"])
	}
	return n, nil
}

// fourLetter sends one of ZooKeeper's four-letter words and returns the answer.
func fourLetter(ctx context.Context, server, word string) (answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", server)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}

// ask returns the lines of an answer, values by names. It asks a server again that is too busy to answer.
func (r *round) ask(server, word string) (map[string]string, error) {
	var last error
	stats := map[string]string{}
	err := r.until("an answer to "+word, func() (bool, error) {
		answer, err := fourLetter(r, server, word)
		for line := range strings.Lines(answer) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			stats[name] = strings.TrimSpace(value)
		}
		last = err
		return err == nil && len(stats) > 0, nil
	})
	r.asked[server]++
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, last)
	}
	return stats, nil
}

// number parses a counter; one that is absent is 0.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 0, 64)
	return n
}

// settled returns the counters when nothing has changed them for a while.
func (r *round) settled() (c counters, err error) {
	same := 0
	err = r.until("an end of requests", func() (bool, error) {
		<-time.After(20 * time.Millisecond)
		next, err := r.counters()
		if same++; next != c {
			c, same = next, 0
		}
		return same == 3, err
	})
	return c, err
}

// minus returns the change since before.
func (c counters) minus(before counters) counters {
	return counters{c.received - before.received, c.sent - before.sent, c.transactions - before.transactions}
}

// A traffic counts the bytes that the connections of a library's clients receive, which are those that the servers send.
type traffic struct{ received atomic.Int64 }

func (t *traffic) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return countedConn{conn, t}, nil
}

type countedConn struct {
	net.Conn
	traffic *traffic
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.traffic.received.Add(int64(n))
	return n, err
}

// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// racesOfOurs returns the reports of the race detector, except those in which both accesses are in the ZooKeeper client. If a
// stack was not restored, its owner is unknown, and the report stays.
func racesOfOurs(text string) []string {
	var ours []string
	for report := range strings.SplitSeq(text, "==================\n") {
		if !strings.Contains(report, "WARNING: DATA RACE") {
			continue
		}
		theirs := 0
		lines := strings.Split(report, "\n")
		for i, line := range lines {
			if access.MatchString(line) && strings.HasPrefix(topFrame(lines[i+1:]), "github.com/go-zookeeper/zk.") {
				theirs++
			}
		}
		if theirs < 2 {
			ours = append(ours, report)
		}
	}
	return ours
}

// access matches the beginning of one of the two accesses in a report.
var access = regexp.MustCompile(`(?i)^(previous )?(atomic )?(read|write) at 0x`)

// topFrame returns the function of an access. It skips functions of the runtime that carry out the access, on a map for example.
func topFrame(stack []string) string {
	for _, line := range stack {
		frame := strings.TrimSpace(line)
		switch {
		case frame == "":
			return "" // the stack ends here
		case strings.HasPrefix(frame, "runtime.") || strings.HasPrefix(frame, "/"): // or a file's line
		default:
			return frame
		}
	}
	return ""
}

func TestRaceIsReportedUnlessBothAccessesAreInTheZooKeeperClient(t *testing.T) {
	report := func(first, second string) string {
		return "==================\nWARNING: DATA RACE\nRead at 0x00c000016b28 by goroutine 130:\n" + first + `
  testing.tRunner()
      /usr/local/go/src/testing/testing.go:2036 +0x21c

Previous write at 0x00c000016b28 by goroutine 136:
` + second + `

Goroutine 130 (running) created at:
  github.com/lockkeeper/lockkeeper/recipes.Connect()
      /src/recipes/client.go:100 +0xb12

Goroutine 136 (finished) created at:
  github.com/go-zookeeper/zk.Connect()
      /mod/github.com/go-zookeeper/zk@v1.0.4/conn.go:200 +0x72
==================
`
	}
	const (
		theirs = `  github.com/go-zookeeper/zk.(*Conn).authenticate()
      /mod/github.com/go-zookeeper/zk@v1.0.4/conn.go:614 +0x1a4
  github.com/go-zookeeper/zk.(*Conn).loop.func1()
      /mod/github.com/go-zookeeper/zk@v1.0.4/conn.go:500 +0x44`
		theirMap = `  runtime.mapaccess1_fast32()
      /usr/local/go/src/internal/runtime/maps/runtime_fast32_swiss.go:17 +0x0
` + theirs
		ours = `  github.com/lockkeeper/lockkeeper/recipes.(*Client).loop()
      /src/recipes/client.go:123 +0x5
  github.com/go-zookeeper/zk.(*Conn).sendEvent()
      /mod/github.com/go-zookeeper/zk@v1.0.4/conn.go:300 +0x1`
		lost = "  [failed to restore the stack]"
	)
	require.Empty(t, racesOfOurs(""))
	require.Empty(t, racesOfOurs("panic: boom\n"))
	require.Empty(t, racesOfOurs(report(theirs, theirs)))
	require.Empty(t, racesOfOurs(report(theirMap, theirs)+"Found 1 data race(s)\n"))
	for _, of := range [][2]string{{ours, theirs}, {theirs, ours}, {ours, ours}, {theirs, lost}} {
		require.Len(t, racesOfOurs(report(of[0], of[1])), 1)
	}
	require.Len(t, racesOfOurs(report(theirs, theirs)+report(theirs, ours)+report(theirMap, theirs)+report(ours, ours)), 2)
}

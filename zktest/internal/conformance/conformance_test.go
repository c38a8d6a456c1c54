// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"flag"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var transcripts = flag.String("conformance.transcripts", "", "folder into which the real server's transcripts are written")

func real(t *testing.T) server {
	addr := os.Getenv("ZKTEST_SERVER")
	return server{name: "ZooKeeper", least: 400, most: 60000, dial: func() (net.Conn, error) { return net.DialTimeout("tcp", addr, patience) }}
}

func TestZktestAnswersAsZooKeeperDoes(t *testing.T) {
	z := real(t)
	for _, sc := range slices.Concat(creations, changes, transactions, permissions, oneShot, persistent, restored, sessions, reads, frames) {
		t.Run(sc.name, func(t *testing.T) {
			began := time.Now()
			lines := perform(t, z, sc.play)
			t.Logf("%v", time.Since(began))
			if *transcripts != "" {
				name := strings.ReplaceAll(sc.name, " ", "_")
				require.NoError(t, os.WriteFile(filepath.Join(*transcripts, name+".txt"), []byte(strings.Join(lines, "\n")+"\n"), 0o644))
			}
		})
	}
}

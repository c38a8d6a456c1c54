// SPDX-License-Identifier: Apache-2.0

package txnlog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A Server has the logs of one server of an ensemble.
type Server struct {
	Txns      []Txn   // in the order of its log
	Snapshots []int64 // the last transaction in each
	Led       []int64 // epochs that it led: the upper half of their transactions' zxids
}

// ReadServer reads a folder with a server's logs: transactions in files "log.<first zxid>", snapshots in
// "snapshot.<last zxid>", of which it reads only the names, and the server's printed log in "server.log", if there is one.
func ReadServer(dir string) (s Server, err error) {
	if s.Txns, err = ReadDir(dir); err != nil {
		return Server{}, err
	}
	if s.Snapshots, err = snapshots(dir); err != nil {
		return Server{}, err
	}
	if s.Led, err = led(filepath.Join(dir, "server.log")); err != nil {
		return Server{}, err
	}
	return s, nil
}

// snapshots returns the zxids in the names of the snapshot files.
func snapshots(dir string) ([]int64, error) {
	names, err := filepath.Glob(filepath.Join(dir, "snapshot.*"))
	if err != nil {
		return nil, fmt.Errorf("snapshots in %s: %w", dir, err)
	}
	var zxids []int64
	for _, name := range names {
		digits := strings.TrimPrefix(filepath.Base(name), "snapshot.")
		if strings.HasSuffix(digits, ".tmp") {
			continue // an unfinished snapshot
		}
		zxid, err := strconv.ParseInt(digits, 16, 64)
		if err != nil {
			return nil, fmt.Errorf("snapshot %s: no zxid in its name: %w", name, err)
		}
		zxids = append(zxids, zxid)
	}
	return zxids, nil
}

// leads matches the line that a server prints when it begins to lead (Leader.startZkServer of ZooKeeper 3.5 to 3.9).
var leads = regexp.MustCompile(`starting up and setting last processed zxid: 0x([0-9a-f]+)`)

func led(name string) (times []int64, err error) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("server's log: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	lines := bufio.NewReader(file) // a Scanner would stop at a long line
	for {
		line, err := lines.ReadString('\n')
		if found := leads.FindStringSubmatch(line); found != nil {
			zxid, err := strconv.ParseInt(found[1], 16, 64)
			if err != nil {
				return nil, fmt.Errorf("server's log %s: %q: %w", name, found[0], err)
			}
			times = append(times, zxid>>32)
		}
		if errors.Is(err, io.EOF) {
			return times, nil
		}
		if err != nil {
			return nil, fmt.Errorf("server's log: %w", err)
		}
	}
}

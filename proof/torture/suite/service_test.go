// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/child"
)

// A lockService is a lock service on the ensemble, whose replicas share these files.
type lockService struct {
	env                        *env
	principals, keys, token    string // files
	certificate, key, clientCA string // files, empty without TLS
}

// service returns a lock service without replicas. The principal team has the bearer token "one", and the principal of the certificate
// CN=team.
func (s *env) service() *lockService {
	s.T.Helper()
	folder := s.T.TempDir()
	l := &lockService{
		env: s, principals: filepath.Join(folder, "principals"), keys: filepath.Join(folder, "keys"), token: filepath.Join(folder, "token"),
	}
	l.admit("one")
	l.write(l.token, "one\n")
	l.write(l.keys, strings.Repeat("c0", 32))
	return l
}

// write replaces a file in one step.
func (l *lockService) write(file, content string) {
	l.env.T.Helper()
	require.NoError(l.env.T, os.WriteFile(file+".new", []byte(content), 0o600))
	require.NoError(l.env.T, os.Rename(file+".new", file))
}

// admit replaces the bearer tokens of the principal team.
func (l *lockService) admit(tokens ...string) {
	l.env.T.Helper()
	var hashes []string
	for _, token := range tokens {
		sum := sha256.Sum256([]byte(token))
		hashes = append(hashes, hex.EncodeToString(sum[:]))
	}
	encoded, err := json.Marshal(hashes)
	require.NoError(l.env.T, err)
	l.write(l.principals, fmt.Sprintf(`{"principals": [
		{"name": "team", "tokens": %s, "subjects": ["CN=team"], "namespaces": ["team"], "roles": ["client"]}]}`, encoded))
}

// orders is the node of the lock team/orders of a service, below the test's root.
const orders = "locks/team/orders"

// A replica is a running process of a lock service.
type replica struct {
	service *lockService
	url     string
	process *child.Process // its log is in JSON
	audit   string         // file
}

// start starts a replica. The end of the test stops it in order: it would wait 10 s for the session of a replica that is killed.
func (l *lockService) start() *replica {
	l.env.T.Helper()
	audit := filepath.Join(l.env.T.TempDir(), "audit.jsonl")
	args := l.env.on("serve", "--listen", "127.0.0.1:0", "--root", l.env.Path("locks"), "--principals", l.principals, "--token-keys", l.keys,
		"--audit", audit, "--audit-renewals")
	if l.certificate != "" {
		args = append(args, "--tls-cert", l.certificate, "--tls-key", l.key, "--client-ca", l.clientCA)
	}
	process, err := child.Start(l.env.T, l.env.until(context.WithoutCancel(l.env.Ctx), args...))
	require.NoError(l.env.T, err)
	l.env.T.Cleanup(func() {
		if process.Signal(syscall.SIGTERM) != nil {
			return // it has ended
		}
		late := time.AfterFunc(20*time.Second, process.Kill)
		defer late.Stop()
		_ = process.Wait()
	})
	r := &replica{service: l, process: process, audit: audit}
	r.url = strings.TrimPrefix(l.env.line(r.process, "export LOCKKEEPER_URL="), "export LOCKKEEPER_URL=")
	return r
}

// stop stops the replica in order.
func (r *replica) stop() {
	s := r.service.env
	s.T.Helper()
	s.interrupt(r.process)
	require.Equal(s.T, 0, s.status(r.process), r.process.Output())
}

// access returns the arguments with which a command uses the replica and others.
func (r *replica) access(others ...*replica) []string {
	urls := []string{r.url}
	for _, o := range others {
		urls = append(urls, o.url)
	}
	return []string{"--url", strings.Join(urls, ","), "--token-file", r.service.token}
}

// logged counts the rows of the replica's log and audit that contain all texts.
func (r *replica) logged(texts ...string) int {
	r.service.env.T.Helper()
	audit, err := os.ReadFile(r.audit)
	require.NoError(r.service.env.T, err)
	n := 0
	for row := range strings.Lines(r.process.Output() + string(audit)) {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(row, text)
		}
		if all {
			n++
		}
	}
	return n
}

// renews waits until the replica has renewed leases n times more.
func (r *replica) renews(n int) {
	r.service.env.T.Helper()
	renewal := []string{`"action":"renew"`, `"status":200`}
	n += r.logged(renewal...)
	r.service.env.Eventually("renewals", func() bool { return r.logged(renewal...) >= n })
}

// reloads changes the keys and the principals, and waits until a replica has read both.
func (l *lockService) reloads(change func(), r *replica) {
	l.env.T.Helper()
	files := []string{l.keys, l.principals}
	var before []int
	for _, file := range files {
		before = append(before, r.logged("file reloaded", file))
	}
	change()
	for i, file := range files {
		l.env.Eventually("the file is read", func() bool { return r.logged("file reloaded", file) > before[i] })
	}
}

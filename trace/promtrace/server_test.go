// SPDX-License-Identifier: Apache-2.0

package promtrace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// program returns the path of a program of Prometheus. Where it is not installed, the test is skipped,
// and fails if CI is set: a green run there has skipped nothing.
func program(t *testing.T, name string) string {
	t.Helper()
	file, err := exec.LookPath(name)
	if err == nil {
		return file
	}
	const advice = "not run: %v: `make stores` installs Prometheus, or says how"
	switch os.Getenv("CI") {
	case "", "0", "false":
		t.Skipf(advice, err)
	default:
		t.Fatalf(advice, err)
	}
	return ""
}

// A server is a Prometheus server of a test.
type server struct {
	*testing.T
	address string
}

// guarded runs its arguments as a command, until its input ends: when the test ends, or its process.
const guarded = `"$@" & pid=$!; cat >/dev/null; kill -9 $pid; wait $pid`

// startPrometheus starts a server that scrapes target, host:port, with the rules of rules.
func startPrometheus(t *testing.T, target, rules string) *server {
	t.Helper()
	prometheus := program(t, "prometheus")
	dir := t.TempDir()
	rules, err := filepath.Abs(rules)
	require.NoError(t, err)
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms}
rule_files: [%q]
scrape_configs: [{job_name: app, static_configs: [{targets: [%q]}]}]
`, rules, target), 0o600))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{t, listener.Addr().String()}
	require.NoError(t, listener.Close())

	cmd := exec.Command("sh", "-c", guarded, "sh", prometheus, "--config.file="+config,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+s.address, "--log.level=warn")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = input.Close()
		_ = cmd.Wait() // its status is that of the killed server
		if t.Failed() {
			t.Logf("prometheus: %s", &log)
		}
	})
	require.Eventually(t, func() bool {
		response, err := http.Get("http://" + s.address + "/-/ready")
		return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}, time.Minute, 10*time.Millisecond, "the server is ready")
	return s
}

// get reads the data of an answer of the server's API.
func (s *server) get(ctx context.Context, data any, path string, values url.Values) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+path+"?"+values.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	err = json.NewDecoder(response.Body).Decode(&answer)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return nil
}

// query returns the values of the series that an expression has now.
func (s *server) query(ctx context.Context, expression string) ([]string, error) {
	var data struct {
		Result []struct{ Value [2]any }
	}
	if err := s.get(ctx, &data, "/api/v1/query", url.Values{"query": {expression}}); err != nil {
		return nil, err
	}
	var found []string
	for _, series := range data.Result {
		found = append(found, fmt.Sprint(series.Value[1]))
	}
	return found, nil
}

// A rule is the state of an alert rule.
type rule struct{ Name, Health, LastError, State string }

// rules returns the state of all alert rules.
func (s *server) rules(ctx context.Context) ([]rule, error) {
	var data struct {
		Groups []struct{ Rules []rule }
	}
	err := s.get(ctx, &data, "/api/v1/rules", url.Values{"type": {"alert"}})
	var found []rule
	for _, group := range data.Groups {
		found = append(found, group.Rules...)
	}
	return found, err
}

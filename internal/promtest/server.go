// SPDX-License-Identifier: Apache-2.0

// Package promtest runs Prometheus for tests, and the queries of dashboards on it.
package promtest

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

	"github.com/lockkeeper/lockkeeper/internal/need"
)

// maxWait bounds each wait.
const maxWait = time.Minute

// Program returns the path of a program of Prometheus. Without it the test ends.
func Program(tb testing.TB, name string) string {
	tb.Helper()
	return need.Program(tb, name, "`make stores` installs Prometheus, or says how")
}

// A Server is a Prometheus server of a test.
type Server struct{ address string }

// guarded runs its arguments as a command, until that ends or its input does: when the test ends, or its process.
const guarded = `exec 3<&0
"$@" 3<&- & pid=$!
{ cat <&3; kill -9 $pid; } >/dev/null 2>&1 & guard=$!
wait $pid; status=$?
kill $guard; exit $status`

// Start starts a server that scrapes target, host:port, four times a second, with the rules of files. It stops at the end of
// the test.
func Start(tb testing.TB, target string, rules ...string) *Server {
	tb.Helper()
	prometheus := Program(tb, "prometheus")
	const attempts = 3 // another process can take the port before Prometheus does
	for attempt := 1; ; attempt++ {
		s, err := start(tb, prometheus, target, rules)
		switch {
		case err == nil:
			return s
		case attempt == attempts:
			tb.Fatal(err)
		}
		tb.Log(err)
	}
}

// start starts a server, and waits until it is ready. It fails if the server ends before.
func start(tb testing.TB, prometheus, target string, rules []string) (*Server, error) {
	tb.Helper()
	dir := tb.TempDir()
	s, err := configure(dir, target, rules)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("sh", "-c", guarded, "sh", prometheus, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+s.address, "--log.level=warn")
	var log bytes.Buffer // complete once ended is closed
	cmd.Stdout, cmd.Stderr = &log, &log
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the status of the killed server
	}()
	tb.Cleanup(func() {
		_ = input.Close()
		<-ended
		if tb.Failed() {
			tb.Logf("prometheus: %s", &log)
		}
	})
	ready, client := false, &http.Client{Timeout: 5 * time.Second} // a process that took the port may never answer
	Holds(func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		response, err := client.Get("http://" + s.address + "/-/ready")
		ready = err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
		return ready
	})
	if ready {
		return s, nil
	}
	select {
	case <-ended:
		return nil, fmt.Errorf("prometheus ended: %s", &log)
	default:
		return nil, fmt.Errorf("prometheus was not ready within %v", maxWait)
	}
}

// configure writes the configuration of a server on a free port.
func configure(dir, target string, rules []string) (*Server, error) {
	config := fmt.Appendf(nil, `global: {scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms}
scrape_configs: [{job_name: app, static_configs: [{targets: [%q]}]}]
rule_files:
`, target)
	for _, file := range rules {
		absolute, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		config = fmt.Appendf(config, "- %q\n", absolute)
	}
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), config, 0o600); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &Server{listener.Addr().String()}, listener.Close()
}

// Holds reports whether condition holds within a minute.
func Holds(condition func() bool) bool {
	for began := time.Now(); time.Since(began) < maxWait; time.Sleep(100 * time.Millisecond) {
		if condition() {
			return true
		}
	}
	return false
}

// get reads the data of an answer of the server's API.
func (s *Server) get(ctx context.Context, data any, path string, values url.Values) error {
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

// Query returns the values of the series that an expression has now.
func (s *Server) Query(ctx context.Context, expression string) ([]string, error) {
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

// A Rule is the state of an alert rule.
type Rule struct{ Name, Health, LastError, State string }

// Rules returns the state of all alert rules.
func (s *Server) Rules(ctx context.Context) ([]Rule, error) {
	var data struct {
		Groups []struct{ Rules []Rule }
	}
	err := s.get(ctx, &data, "/api/v1/rules", url.Values{"type": {"alert"}})
	var found []Rule
	for _, group := range data.Groups {
		found = append(found, group.Rules...)
	}
	return found, err
}

// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The test takes the files, the commands and the change for real servers from the README. It adds only a free port for the
// server, so that it can run beside other programs, and -v, so that it can read which tests ran.
func TestNewcomerFollowsREADME(t *testing.T) {
	page, files := readme(t)
	c := newConsumer(t)
	c.env = append(c.env, "PATH="+programs()+string(os.PathListSeparator)+os.Getenv("PATH"))

	c.follow(t, command(t, page, "go mod init "))
	c.write(t, "main.go", files[0])

	const start = "&& lockkeeper dev"
	dev := command(t, page, "go install ")
	require.True(t, strings.HasSuffix(dev, start), "the README starts a server: %s", dev)
	server := c.start(t, strings.TrimSuffix(dev, start)+"&& exec lockkeeper dev --listen 127.0.0.1:0")
	address := strings.TrimPrefix(server.until(t, "export LOCKKEEPER_SERVERS="), "export LOCKKEEPER_SERVERS=")

	const usual = "localhost:2181"
	require.Equal(t, 1, strings.Count(files[0], usual), "the program names its server once")
	c.write(t, "main.go", strings.ReplaceAll(files[0], usual, address))
	program := c.start(t, command(t, page, "go mod tidy "))
	program.until(t, "leading with token ")
	output, _ := program.interrupt(t) // after an interrupt the status of go run is 1
	require.NotContains(t, output, "exit status", "the program released its leadership")
	_, err := server.interrupt(t)
	require.NoError(t, err)

	c.write(t, "main_test.go", files[1])
	tested := c.follow(t, command(t, page, "go test")+" -v")
	require.Contains(t, tested, "\n--- PASS: Test")

	c.follow(t, command(t, page, "go get "))
	c.write(t, "main_test.go", onRealServer(t, page, files[1]))
	t.Run("OnRealServer", func(t *testing.T) {
		tested := c.follow(t, command(t, page, "go test")+" -v")
		if strings.Contains(tested, "\n--- SKIP: Test") { // package docker skips nothing where CI is set
			t.Skip("not run: no container engine, and no Java with ZooKeeper's jars")
		}
		require.Contains(t, tested, "\n--- PASS: Test")
	})
}

// readme returns the README without its Go files, and these.
func readme(t *testing.T) (page string, files []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "README.md"))
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```go\n(.*?)```\n")
	for _, found := range block.FindAllStringSubmatch(string(text), -1) {
		if strings.HasPrefix(found[1], "package main\n") {
			files = append(files, found[1])
		}
	}
	require.Len(t, files, 2, "the README shows a program and its test")
	return block.ReplaceAllString(string(text), ""), files
}

// command returns the only command of the README that begins with prefix, on a separate line or as code in a sentence.
func command(t *testing.T, page, prefix string) string {
	t.Helper()
	pattern := regexp.MustCompile("(?m)(?:^    |`)(" + regexp.QuoteMeta(prefix) + "[^`\n]*?)(?:`| *#.*$| *$)")
	found := pattern.FindAllStringSubmatch(page, -1)
	require.Len(t, found, 1, "commands of the README that begin with %q", prefix)
	return found[0][1]
}

// onRealServer returns the README's test after the change that the README describes for real servers.
func onRealServer(t *testing.T, page, test string) string {
	t.Helper()
	replace := func(old, with string) {
		require.Equal(t, 1, strings.Count(test, old), "the README's test has one %s", old)
		test = strings.Replace(test, old, with, 1)
	}
	code := func(pattern string) string {
		found := regexp.MustCompile("`(" + pattern + ")`").FindStringSubmatch(page)
		require.NotNil(t, found, "the README names the call %s", pattern)
		return found[1]
	}
	replace(`"`+lockkeeper+`/zktest"`, code(`zktest ".*?/docker"`))
	return test
}

// follow runs a command line of the README, and returns and logs its output.
func (c consumer) follow(t *testing.T, line string) string {
	t.Helper()
	t.Log("$ " + line)
	output := c.run(t, "sh", "-c", line)
	t.Log(output)
	return output
}

// A terminal runs one command line.
type terminal struct {
	cmd    *exec.Cmd
	output *os.File // its end means that all processes of the command have ended
	lines  *bufio.Scanner
}

// start starts a command line of the README. Its processes are killed at the end of the test if they have not ended.
func (c consumer) start(t *testing.T, line string) *terminal {
	t.Helper()
	t.Log("$ " + line)
	output, in, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir, cmd.Env = c.dir, c.env
	cmd.Stdout, cmd.Stderr = in, in
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches each process of a terminal's command
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	require.NoError(t, errors.Join(cmd.Start(), in.Close()))
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Wait() // it was killed
		}
		_ = output.Close()
	})
	return &terminal{cmd: cmd, output: output, lines: bufio.NewScanner(output)}
}

// next returns the next line of output and reports whether there is one.
func (p *terminal) next(t *testing.T) (string, bool) {
	t.Helper()
	// The go command compiles all packages of the command without output, on a busy machine for more than five minutes.
	require.NoError(t, p.output.SetReadDeadline(time.Now().Add(20*time.Minute)))
	if !p.lines.Scan() {
		require.NoError(t, p.lines.Err(), "%s: no output for twenty minutes", p.cmd)
		return "", false
	}
	t.Log(p.lines.Text())
	return p.lines.Text(), true
}

// until returns the first line that contains text.
func (p *terminal) until(t *testing.T, text string) string {
	t.Helper()
	for {
		line, more := p.next(t)
		require.True(t, more, "%s: ended without %q", p.cmd, text)
		if strings.Contains(line, text) {
			return line
		}
	}
}

// interrupt does what Ctrl-C does, and returns the rest of the output and the command's status.
func (p *terminal) interrupt(t *testing.T) (output string, err error) {
	t.Helper()
	t.Log("^C")
	require.NoError(t, syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT))
	var rest strings.Builder
	for {
		line, more := p.next(t)
		if !more {
			return rest.String(), p.cmd.Wait()
		}
		rest.WriteString(line + "\n")
	}
}

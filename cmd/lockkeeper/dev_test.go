// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/lab"
	"github.com/lockkeeper/lockkeeper/internal/child"
)

// A devServer is a dev command that runs in this process.
type devServer struct {
	t       *testing.T
	line    string // the first that it has printed
	servers []string
	stdin   *io.PipeWriter
	answers *io.PipeReader // that stdout reads
	stdout  *bufio.Reader
	stderr  *syncBuffer
	stop    context.CancelFunc
	status  chan int
}

// startDev starts dev on free ports, and waits until it has printed them.
func startDev(t *testing.T, args ...string) *devServer {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stdin, commands := io.Pipe()
	answers, stdout := io.Pipe()
	p := &devServer{
		t: t, stdin: commands, answers: answers, stdout: bufio.NewReader(answers), stderr: &syncBuffer{},
		stop: stop, status: make(chan int, 1),
	}
	go func() {
		p.status <- run(ctx, append([]string{"dev", "--listen", "127.0.0.1:0"}, args...), stdin, stdout, p.stderr)
		_ = stdout.Close() // as the end of a process does, so that no reader waits
	}()
	t.Cleanup(func() {
		stop()
		_ = commands.Close()
		_ = answers.Close()
	})
	p.line = p.nextLine()
	addresses, named := strings.CutPrefix(p.line, "export LOCKKEEPER_SERVERS=")
	require.True(t, named)
	p.servers = strings.Split(addresses, ",")
	return p
}

// nextLine returns the next line of standard output.
func (p *devServer) nextLine() string {
	p.t.Helper()
	text, err := p.stdout.ReadString('\n')
	require.NoError(p.t, err, "%s", p.stderr)
	return strings.TrimSuffix(text, "\n")
}

func (p *devServer) command(text string) {
	p.t.Helper()
	_, err := io.WriteString(p.stdin, text+"\n")
	require.NoError(p.t, err)
}

// end interrupts the command and returns its exit status.
func (p *devServer) end() int {
	p.t.Helper()
	p.stop()
	return <-p.status
}

// connect returns a connection to the servers that has a session.
func (p *devServer) connect() *zk.Conn {
	p.t.Helper()
	conn, events, err := zk.Connect(p.servers, 4*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	require.NoError(p.t, err)
	p.t.Cleanup(conn.Close)
	for event := range events {
		if event.State == zk.StateHasSession {
			return conn
		}
	}
	p.t.Fatal("no session")
	return nil
}

// A syncBuffer is a buffer that is safe for concurrent use.
type syncBuffer struct {
	mu     sync.Mutex // guards buffer
	buffer bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.Write(p)
}

func (s *syncBuffer) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buffer.Reset()
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.String()
}

func TestDevServesAndWarnsThatItIsNotForProduction(t *testing.T) {
	t.Parallel()
	p := startDev(t, "--servers", "3", "--tick", "250ms")
	require.Len(t, p.servers, 3)
	_, err := p.connect().Create("/greeting", []byte("hello"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	for _, want := range []string{
		"NOT FOR PRODUCTION", "no persistence", "accepts every client", p.servers[2], "sessions time out after 500ms to 5s",
	} {
		require.Contains(t, p.stderr.String(), want)
	}
	require.NotContains(t, p.stderr.String(), "commands are read", "standard input is no terminal")
	require.Equal(t, statusOK, p.end())
}

// Every command that connects to servers takes them from the line that dev prints, and from no other variable.
func TestLineOfDevNamesServersForAllOtherCommands(t *testing.T) {
	t.Parallel()
	dev := startDev(t)
	program, err := os.Executable()
	require.NoError(t, err)
	for command, want := range map[string]string{
		"run --lock /ledger -- sh -c 'echo $LOCKKEEPER_PATH'": "/ledger",
		"ls":               "",
		"show /ledger":     "/ledger is free",
		"doctor":           dev.servers[0],
		"resize /ledger 2": "no limit is stored",
		"release /ledger --token 1 --reason test --force": "no contender",
		"demo": " on " + dev.servers[0],
		"watch /ledger >seen & until grep free seen; do sleep 0.05; done; kill $!": "/ledger  free",
	} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", dev.line+"\n"+`"$0" `+command, program)
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), mainVariable+"=1", "ZK_SERVERS=127.0.0.1:1")
		output, _ := cmd.CombinedOutput()
		require.Contains(t, string(output), want, command)
		require.NotContains(t, string(output), "--servers is missing", command)
	}
	require.Equal(t, statusOK, dev.end())
}

func TestDevExecutesCommandsAndSurvivesBadOnes(t *testing.T) {
	t.Parallel()
	p := startDev(t, "--faults", "--servers", "3")
	require.Contains(t, p.stderr.String(), "commands are read from standard input")

	p.command("sessions")
	require.Equal(t, "no sessions", p.nextLine())
	conn := p.connect()
	_, err := conn.Create("/lost", []byte("property"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	p.command("sessions")
	session := p.nextLine()
	require.Regexp(t, `^0x[0-9a-f]+ times out after 4s, attached to server [1-3]$`, session)
	p.command("dump")
	require.Contains(t, p.skipTo("/lost "), `data="property"`)

	p.command("  ")
	p.command("explode")
	p.command("lose-request 0")
	p.command("kill 4")
	id, _, _ := strings.Cut(session, " ")
	p.command("expire " + id)
	p.skipTo("done: expire " + id)
	for _, said := range []string{
		`fault "explode": unknown: must be one of accept SERVER, answer SERVER,`,
		`number "0": must be 1 or more`,
		`server "4": must be 1 to 3`,
	} {
		require.Contains(t, p.stderr.String(), said)
	}
	p.command("servers")
	for i, mode := range []string{"leader", "follower", "follower"} {
		require.Regexp(t, `^`+string(rune('1'+i))+`  `+regexp.QuoteMeta(p.servers[i])+`  `+mode+`$`, p.nextLine())
	}

	require.NoError(t, p.stdin.Close())
	require.Eventually(t, func() bool { // the client has its next session
		exists, _, err := conn.Exists("/lost")
		return err == nil && !exists
	}, time.Minute, 10*time.Millisecond, "it continues to serve without further commands")
	require.Equal(t, statusOK, p.end())
}

// skipTo returns the next line of standard output that has the prefix.
func (p *devServer) skipTo(prefix string) string {
	p.t.Helper()
	for {
		if text := p.nextLine(); strings.HasPrefix(text, prefix) {
			return text
		}
	}
}

func TestDevHelpListsCommands(t *testing.T) {
	t.Parallel()
	p := startDev(t, "--faults")
	p.command("help")
	for _, prefix := range []string{"dump ", "sessions ", "servers ", "help ", "  hold SERVER DIRECTION", "  lose-reply N", "  wipe SERVER"} {
		p.skipTo(prefix)
	}
	require.Equal(t, statusOK, p.end())
}

func TestDevContinuesAfterReadErrorOnStandardInput(t *testing.T) {
	t.Parallel()
	p := startDev(t, "--faults")
	require.NoError(t, p.stdin.CloseWithError(syscall.EIO)) // as from a terminal of another process group
	require.Eventually(t, func() bool {
		return strings.Contains(p.stderr.String(), "dev: read standard input: input/output error: serving without commands")
	}, time.Minute, 10*time.Millisecond)
	require.NotNil(t, p.connect())
	require.Equal(t, statusOK, p.end())
}

func TestDevContinuesAfterTheReadersOfItsAnswersHaveGone(t *testing.T) {
	t.Parallel()
	p := startDev(t, "--faults")
	require.NoError(t, p.answers.CloseWithError(syscall.EPIPE))
	p.command("help")
	require.Eventually(t, func() bool {
		return strings.Contains(p.stderr.String(), "dev: write the answer: broken pipe")
	}, time.Minute, 10*time.Millisecond)
	require.NotNil(t, p.connect())
	require.Equal(t, statusOK, p.end())
}

// serveProcess runs dev as a process whose standard input is the null device.
func serveProcess(t *testing.T) (servers []string, stderr *syncBuffer, cmd *exec.Cmd) {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	cmd = exec.CommandContext(t.Context(), program, "dev", "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), mainVariable+"=1")
	stderr = &syncBuffer{}
	cmd.Stderr = stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	first, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(strings.TrimPrefix(first, "export LOCKKEEPER_SERVERS=")), ","), stderr, cmd
}

func TestDevWithoutInputServesAndOffersNoCommands(t *testing.T) {
	t.Parallel()
	servers, stderr, cmd := serveProcess(t)
	p := &devServer{t: t, servers: servers}
	require.NotNil(t, p.connect())
	require.NotContains(t, stderr.String(), "commands are read")
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait())
}

func TestDevContinuesAfterEndOfStandardInputAndReportsIt(t *testing.T) {
	t.Parallel()
	p := startDev(t, "--faults")
	require.NoError(t, p.stdin.Close())
	require.Eventually(t, func() bool {
		return strings.Contains(p.stderr.String(), "dev: standard input has ended: serving without commands until an interrupt")
	}, time.Minute, 10*time.Millisecond)
	require.NotNil(t, p.connect())
	require.Equal(t, statusOK, p.end())
}

func TestDevAllowsTTLNodesOnlyWithFlag(t *testing.T) {
	t.Parallel()
	create := func(p *devServer) error {
		_, err := p.connect().CreateTTL("/brief", nil, zk.FlagTTL, zk.WorldACL(zk.PermAll), 10*time.Millisecond)
		return err
	}
	require.Error(t, create(startDev(t)))
	p := startDev(t, "--ttl-nodes", "--reap", "20ms")
	require.NoError(t, create(p))
	conn := p.connect()
	require.Eventually(t, func() bool {
		exists, _, err := conn.Exists("/brief")
		return err == nil && !exists
	}, time.Minute, 10*time.Millisecond)
}

func TestDevFailsOnPortInUseAndNamesIt(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	var stdout, stderr bytes.Buffer
	require.Equal(t, statusFailed, run(t.Context(), []string{"dev", "--listen", listener.Addr().String()}, nil, &stdout, &stderr))
	require.Empty(t, stdout.String())
	require.Regexp(t, `^lockkeeper: dev: .*`+regexp.QuoteMeta(listener.Addr().String())+`: .*in use\n$`, stderr.String())
}

func TestDevListensForOtherMachinesOnlyWithExpose(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "127.0.0.2:0", "localhost:0", "[::1]:0", "[::ffff:127.0.0.1]:0"} {
		require.NoError(t, checkListen(listen, false), listen)
	}
	for _, listen := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "zk1:0", "localhost.example:0"} {
		require.ErrorContains(t, checkListen(listen, false), "--expose", listen)
		require.NoError(t, checkListen(listen, true), listen)
	}
}

// checkListen checks arguments of dev that are valid except for the address.
func checkListen(listen string, exposed bool) error {
	return (&devArguments{listen: listen, servers: 1, tick: time.Second, reap: time.Minute, exposed: exposed}).check()
}

func TestDevFailsIfItsAddressCannotBePrinted(t *testing.T) {
	t.Parallel()
	var stderr syncBuffer
	require.Equal(t, statusFailed, run(t.Context(), []string{"dev", "--listen", "127.0.0.1:0"}, nil, broken{}, &stderr))
	require.Contains(t, stderr.String(), "lockkeeper: dev: write failed\n")
}

// mainVariable is the environment variable that makes the test binary run main.
const mainVariable = "LOCKKEEPER_TEST_MAIN"

func TestMain(m *testing.M) {
	lab.Main()
	if os.Getenv(mainVariable) != "" {
		main()
	}
	child.Main()
	os.Exit(m.Run())
}

func TestInterruptedDevExitsWithStatus0(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			program, err := os.Executable()
			require.NoError(t, err)
			cmd := exec.CommandContext(ctx, program, "dev", "--listen", "127.0.0.1:0")
			cmd.Env = append(os.Environ(), mainVariable+"=1")
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			first, err := bufio.NewReader(stdout).ReadString('\n')
			require.NoError(t, err)
			require.Regexp(t, `^export LOCKKEEPER_SERVERS=127\.0\.0\.1:\d+\n$`, first)
			require.NoError(t, cmd.Process.Signal(signal))
			require.NoError(t, cmd.Wait())
		})
	}
}

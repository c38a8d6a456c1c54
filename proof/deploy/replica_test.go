// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// token is the bearer token of the only principal of the tests.
const token = "token"

// principals returns a file of principals with that principal.
func principals() string {
	sum := sha256.Sum256([]byte(token))
	return fmt.Sprintf(`{"principals": [{"name": "team", "tokens": [%q], "namespaces": ["team"], "roles": ["client", "admin"]}]}`, hex.EncodeToString(sum[:]))
}

// tokenKey returns a file with one key for lock tokens.
func tokenKey() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return hex.EncodeToString(key)
}

// certificate returns a certificate for 127.0.0.1 and its key, in PEM.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"lockkeeper"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	cert = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	key = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
	return cert, key
}

// arguments returns the arguments of a deployment for a run of the binary here: with the files that it expects below
// other folders, as pairs of old and new, and on a free port.
func arguments(t *testing.T, args []string, folders ...string) []string {
	t.Helper()
	listens := 0
	var here []string
	for _, arg := range args {
		if strings.HasPrefix(arg, "--listen=") {
			listens++
			arg = "--listen=127.0.0.1:0"
		}
		here = append(here, strings.NewReplacer(folders...).Replace(arg))
	}
	require.Equal(t, 1, listens, "the deployment names one address: %q", args)
	return here
}

// stopBound is the time within which a replica exits after SIGTERM, as docs/service-operation.md states.
const stopBound = 30 * time.Second

// requireServes runs the binary on an ensemble in memory, requires that it gets ready over TLS at the path of the
// readiness probe and that it stops within the time that the deployment gives it, and returns what it wrote to standard output.
func requireServes(t *testing.T, args []string, readyPath string, grace time.Duration) string {
	t.Helper()
	require.GreaterOrEqual(t, grace, stopBound)
	r := startReplica(t, args)
	url := r.url
	require.True(t, strings.HasPrefix(url, "https://"), "the deployment serves TLS, not %s", url)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // as a probe does
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		status, _ := send(c, client, http.MethodGet, url+readyPath, "")
		require.Equal(c, http.StatusOK, status)
	}, time.Minute, 50*time.Millisecond)
	status, body := send(t, client, http.MethodPost, url+"/v1/locks/team/orders/acquire", `{"ownerId": "a", "requestId": "1"}`)
	require.Equal(t, http.StatusOK, status, body)

	require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-r.ended:
		require.NoError(t, r.err, r.stderr.String())
	case <-time.After(grace):
		require.FailNow(t, "the replica did not stop in time", r.stderr.String())
	}
	return r.stdout.String()
}

// A replica is a running process of the binary.
type replica struct {
	url            string
	cmd            *exec.Cmd
	stdout, stderr safeBuffer
	ended          chan struct{} // closed when the process has ended
	err            error         // of the process, once ended is closed
}

// startReplica runs the binary on an ensemble in memory, and waits until it serves. It is killed at the end of the test.
func startReplica(t *testing.T, args []string) *replica {
	t.Helper()
	ensemble := zktest.Start(t, nil)
	r := &replica{cmd: exec.Command(binary, args...), ended: make(chan struct{})}
	r.cmd.Env = append(os.Environ(), "LOCKKEEPER_SERVERS="+strings.Join(ensemble.Addrs(), ","))
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	require.NoError(t, r.cmd.Start())
	go func() {
		defer close(r.ended)
		r.err = r.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // it may have ended
		<-r.ended
	})
	started := regexp.MustCompile(`"msg":"serving","url":"(.*)"`)
	require.Eventually(t, func() bool {
		select {
		case <-r.ended:
			return true
		default:
			return started.MatchString(r.stderr.String())
		}
	}, time.Minute, 20*time.Millisecond, "the replica does not start")
	found := started.FindStringSubmatch(r.stderr.String())
	require.NotNil(t, found, "the replica ended: %s", &r.stderr)
	r.url = found[1]
	return r
}

// requireRefuses runs the binary without servers, and requires that it ends with an error.
func requireRefuses(t *testing.T, args []string, why string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	// A replica that accepts its files waits for these servers.
	cmd.Env = append(os.Environ(), "LOCKKEEPER_SERVERS=127.0.0.1:1")
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.Error(t, cmd.Run())
	require.True(t, timer.Stop(), "the replica started: %s", &stderr)
	require.Contains(t, stderr.String(), why)
}

// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/internal/need"
)

// large returns a lock whose description has about so many bytes.
func large(bytes int) lease.Status {
	front := held
	front.Lease = &lease.Lease{Metadata: map[string]string{"value": strings.Repeat("x", bytes)}}
	return lease.Status{Contenders: []lease.Contender{front}}
}

// unread sends the request of a principal on its own connection, and reads no more of the answer than its status.
func (f *fixture) unread(who, path string) (status string, answer net.Conn) {
	f.t.Helper()
	conn, err := f.server.Client().Transport.(*http.Transport).DialContext(f.t.Context(), "", "")
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n\r\n", path, who)
	require.NoError(f.t, err)
	synctest.Wait()
	status = "HTTP/1.1 200"
	read := make([]byte, len(status))
	_, err = io.ReadFull(conn, read)
	require.NoError(f.t, err)
	return strings.TrimPrefix(string(read), "HTTP/1.1 "), conn
}

// An answer is in memory until it is read, or its connection ends after a minute.
func TestListsThatAreNotReadAreBoundedForEachPrincipal(t *testing.T) {
	need.NoRaceDetector(t)
	faketime.Test(t, func(t *testing.T) {
		const list = "/v1/locks?namespace=own&limit=1000"
		f := newFixture(t, &scripted{status: large(1 << 20)})
		var answers []net.Conn
		counts := map[string]int{}
		for range 40 {
			status, answer := f.unread("client", list)
			counts[status]++
			if status == "200" {
				answers = append(answers, answer)
			}
		}
		require.Equal(t, map[string]int{"200": 15, "429": 25}, counts, "16 MiB")
		refused := f.send("client", http.MethodGet, list, "")
		require.Equal(t, 429, refused.status)
		require.Equal(t, "TOO_MANY_REQUESTS", refused.code(t))
		require.Equal(t, "1", refused.header.Get("Retry-After"))
		require.Equal(t, 200, f.send("both", http.MethodGet, list, "").status, "another principal")
		require.Equal(t, 200, f.send("client", http.MethodGet, "/v1/locks/own/orders", "").status, "no list")

		res, err := http.ReadResponse(bufio.NewReader(io.MultiReader(strings.NewReader("HTTP/1.1 200"), answers[0])), nil)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Contains(t, string(body), `"nextPage"`)
		synctest.Wait()
		require.Equal(t, 200, f.send("client", http.MethodGet, list, "").status, "one was read")
		require.NoError(t, answers[1].Close())
		synctest.Wait()
		require.Equal(t, 200, f.send("client", http.MethodGet, list, "").status, "one ended")
	})
}

func TestAnswerThatIsLargerThanTheBoundIsGivenAlone(t *testing.T) {
	need.NoRaceDetector(t)
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{status: large(17 << 20)})
		require.Equal(t, 200, f.send("client", http.MethodGet, "/v1/locks?namespace=own", "").status)
	})
}

func TestSmallListsAreNotRefused(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{status: large(1 << 10)})
		for range 500 {
			status, _ := f.unread("client", "/v1/locks?namespace=own")
			require.Equal(t, "200", status)
		}
	})
}

func TestPagesThatAreNotReadAreBoundedForEachPrincipal(t *testing.T) {
	need.NoRaceDetector(t)
	faketime.Test(t, func(t *testing.T) {
		const page = "/?namespace=own"
		contenders := slices.Repeat([]lease.Contender{held}, 6)
		for i := range contenders {
			contenders[i].Owner = strings.Repeat("<", 256)
		}
		f := newFixture(t, &scripted{status: lease.Status{Contenders: contenders}, others: 49})
		var answers []net.Conn
		counts := map[string]int{}
		for range 200 {
			status, answer := f.unread("both", page)
			counts[status]++
			if status == "200" {
				answers = append(answers, answer)
			}
		}
		require.Equal(t, 200, counts["200"]+counts["429"])
		both := browser{f, "both", ownOrigin}
		refused := both.send(http.MethodGet, page, "")
		require.Equal(t, 429, refused.status)
		require.Equal(t, "1", refused.header.Get("Retry-After"))
		require.Contains(t, string(refused.body), "TOO_MANY_REQUESTS")
		require.Equal(t, 422, both.send(http.MethodGet, "/?namespace=%3Cscript%3E", "").status, "a refusal")
		require.Equal(t, 200, both.send(http.MethodPost, forceURL, forceFields).status, "the outcome of an action")
		read := browser{f, "client", ownOrigin}.send(http.MethodGet, page, "")
		require.Equal(t, 200, read.status, "another principal")
		require.InDelta(t, 16<<20, counts["200"]*len(read.body), float64(len(read.body)))

		require.NoError(t, answers[0].Close())
		synctest.Wait()
		require.Equal(t, 200, both.send(http.MethodGet, page, "").status, "one ended")
	})
}

func TestReadsOfSingleLocksThatAreNotReadAreBoundedApart(t *testing.T) {
	need.NoRaceDetector(t)
	faketime.Test(t, func(t *testing.T) {
		const list = "/v1/locks?namespace=own"
		for _, path := range []string{"/v1/locks/own/orders", "/v1/elections/own/orders/leader"} {
			f := newFixture(t, &scripted{status: large(1 << 20)})
			counts := map[string]int{}
			for range 40 {
				status, _ := f.unread("client", path)
				counts[status]++
			}
			require.Equal(t, map[string]int{"200": 15, "429": 25}, counts, path)
			require.Equal(t, "TOO_MANY_REQUESTS", f.send("client", http.MethodGet, path, "").code(t))
			require.Equal(t, 200, f.send("client", http.MethodGet, list, "").status)
			require.Equal(t, 200, f.send("both", http.MethodGet, path, "").status, "another principal")
		}
	})
}

func TestCallerThatHangsUpIsNoErrorOfTheServer(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{status: large(1 << 20)})
		reported := &buffer{}
		f.server.Config.ErrorLog = log.New(reported, "", 0)
		for _, path := range []string{"/v1/locks?namespace=own", "/?namespace=own"} {
			_, answer := f.unread("client", path)
			require.NoError(t, answer.Close())
			synctest.Wait()
		}
		require.Empty(t, reported.String())
		require.Contains(t, f.log.String(), `"status":200`)
	})
}

// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"
)

// send sends a request with the token of the tests, and returns its answer.
func send(t require.TestingT, client *http.Client, method, url, body string) (status int, answer string) {
	request, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	require.NoError(t, err)
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, string(content)
}

// A safeBuffer is a buffer that one goroutine writes while others read it.
type safeBuffer struct {
	mu      sync.Mutex
	content bytes.Buffer // guarded by mu
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.content.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.content.String()
}

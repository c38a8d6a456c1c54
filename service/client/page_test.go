// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/service/client"
)

// ofThePage is the code of docs/service.md, with the names that it leaves out.
func ofThePage(ctx context.Context, readToken func() (string, error), rows []string, write func(context.Context, []string, fencing.Token) error) error {
	locks, err := client.New("https://a.example.com:8443,https://b.example.com:8443", &client.Options{Bearer: readToken})
	if err != nil {
		return err
	}
	return locks.Do(ctx, "billing", "orders", func(ctx context.Context, hold *client.Hold) error {
		return write(ctx, rows, hold.Token()) // ctx ends with the hold; context.Cause(ctx) is why
	})
}

func TestCodeOfThePageCompiles(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/service.md")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(page), "```go\n")
	require.True(t, found)
	code, _, _ := strings.Cut(after, "```")
	source, err := os.ReadFile("page_test.go")
	require.NoError(t, err)
	require.Contains(t, strings.ReplaceAll(string(source), "\n\t", "\n"), code)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, ofThePage(ctx, bearer("team"), nil, nil), context.Canceled)
}

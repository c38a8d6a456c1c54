// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/service"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const pages = "../docs/"

// block returns the content of a page's block of code in a language.
func block(t *testing.T, page, language string) string {
	t.Helper()
	text, err := os.ReadFile(pages + page)
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "```"+language+"\n")
	require.True(t, found)
	content, _, _ := strings.Cut(after, "```")
	return content
}

// The fields that differ in each run.
var volatile = []string{"lockToken", "fencingToken", "validMillis", "expiresAt", "retryAfterMillis"}

func TestSessionOfThePageRunsAsShown(t *testing.T) {
	t.Parallel()
	need.Program(t, "curl", "install it")
	r := development(t)
	const end = "=end of answer="
	script, expected := "set -eu\n", []string{}
	for row := range strings.Lines(block(t, "service.md", "console")) {
		if command, ok := strings.CutPrefix(row, "$ "); ok {
			script += command + "echo '" + end + "'\n"
			expected = append(expected, "")
		} else {
			expected[len(expected)-1] += row
		}
	}
	shell := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(script, "http://127.0.0.1:8080", r.url))
	shell.Dir = t.TempDir()
	output, err := shell.CombinedOutput()
	require.NoError(t, err, "%s", output)
	answers := strings.Split(string(output), end+"\n")
	require.Len(t, answers, len(expected)+1)
	var tokens []string
	for i, want := range expected {
		if want == "" {
			require.Empty(t, answers[i])
			continue
		}
		wanted, got := map[string]any{}, map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(want), &wanted), want)
		require.NoError(t, json.Unmarshal([]byte(answers[i]), &got), answers[i])
		if token, ok := got["lockToken"].(string); ok {
			tokens = append(tokens, token)
		}
		for _, name := range volatile {
			if wanted[name] != nil && got[name] != nil {
				wanted[name] = got[name]
			}
		}
		require.Equal(t, wanted, got)
	}
	require.Len(t, tokens, 3)
	require.Len(t, slices.Compact(tokens), 1, "the repeated acquire is the same grant")
}

func TestPrincipalsOfThePageAreValid(t *testing.T) {
	t.Parallel()
	principalsFile, keysFile := credentials(t)
	const placeholder = "<SHA-256 of a token, 64 hexadecimal digits>"
	content := block(t, "service-operation.md", "json")
	require.Contains(t, content, placeholder, "a copied file must admit no token that readers of the page know")
	content = strings.ReplaceAll(content, placeholder, fmt.Sprintf("%x", sha256.Sum256([]byte("test"))))
	require.NoError(t, os.WriteFile(principalsFile, []byte(content), 0o600))
	r := start(t, service.Config{Servers: zktest.Start(t, nil).Addrs(), Principals: principalsFile, TokenKeys: keysFile})
	r.post("test", "/v1/locks/billing/orders/acquire", request("w1", "r1", "")).is(200, "")
}

func TestPageNamesEveryCode(t *testing.T) {
	t.Parallel()
	r := development(t)
	document := r.send("", "GET", "/openapi.json", "")
	schemas := document.body["components"].(map[string]any)["schemas"].(map[string]any)
	codes := schemas["Problem"].(map[string]any)["properties"].(map[string]any)["code"].(map[string]any)["enum"].([]any)
	require.Greater(t, len(codes), 20)
	text, err := os.ReadFile(pages + "service-api.md")
	require.NoError(t, err)
	for _, code := range codes {
		require.Regexp(t, "`"+regexp.QuoteMeta(code.(string))+"`", string(text))
	}
}

// SPDX-License-Identifier: Apache-2.0

package worker_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readmeLines is the limit of the README: a reader decides within a minute.
const readmeLines = 130

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```\n")

func TestREADMEIsShort(t *testing.T) {
	lines := strings.Count(readme(t), "\n")
	require.LessOrEqual(t, lines, readmeLines, "README.md has %d lines, more than %d: move details to docs", lines, readmeLines)
}

func TestCodeOfREADMEIsTheCodeOfExamplesHello(t *testing.T) {
	blocks := goBlock.FindAllStringSubmatch(readme(t), -1)
	require.GreaterOrEqual(t, len(blocks), 2, "the README shows a program and its test first")
	for i, name := range []string{"main.go", "main_test.go"} {
		code, err := os.ReadFile(filepath.Join("..", "examples", "hello", name))
		require.NoError(t, err)
		start := strings.Index(string(code), "package main\n")
		require.Positive(t, start, name)
		require.Equal(t, string(code[start:]), blocks[i][1], "block %d of the README is examples/hello/%s", i+1, name)
	}
}

func TestFencedWriteOfREADMEIsThatOfExamplesWorker(t *testing.T) {
	blocks := goBlock.FindAllStringSubmatch(readme(t), -1)
	require.Len(t, blocks, 3)
	code, err := os.ReadFile(filepath.Join("..", "examples", "worker", "worker.go"))
	require.NoError(t, err)
	indented := regexp.MustCompile(`(?m)^`).ReplaceAllString(strings.TrimSuffix(blocks[2][1], "\n"), "\t")
	require.Contains(t, string(code), "\n"+indented+"\n")
}

// .ci/run is what a reader runs who follows the README.
func TestREADMENamesTestCommandOfCI(t *testing.T) {
	ci, err := os.ReadFile(filepath.Join("..", ".ci", "run"))
	require.NoError(t, err)
	command := regexp.MustCompile(`(?m)^CI=true (.+)$`).FindSubmatch(ci)
	require.NotNil(t, command, ".ci/run calls one command")
	for _, want := range []string{string(command[1]), "make demo"} {
		require.Regexp(t, "(?m)^    "+want+"\\b", readme(t), "the README names `%s`", want)
	}
}

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "README.md"))
	require.NoError(t, err)
	return string(text)
}

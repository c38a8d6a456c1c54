// SPDX-License-Identifier: Apache-2.0

package worker_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestCodeOfTheTestingPageIsTheCodeThatRuns(t *testing.T) {
	code, err := os.ReadFile("worker_test.go")
	require.NoError(t, err)
	_, body, found := strings.Cut(string(code), "\n\n")
	require.True(t, found, "the licence, and then what the page shows")

	blocks := goBlock.FindAllStringSubmatch(page(t), -1)
	require.Len(t, blocks, 3)
	for _, block := range blocks {
		require.Contains(t, body, block[1])
	}
}

func TestTestingPageListsEveryFault(t *testing.T) {
	_, section, found := strings.Cut(page(t), "\n## Faults\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?) \\|").FindAllStringSubmatch(section, -1) {
		for _, name := range regexp.MustCompile("`(.+?)`").FindAllStringSubmatch(row[1], -1) {
			listed = append(listed, name[1])
		}
	}
	require.ElementsMatch(t, zktest.Faults(), listed)
}

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testing.md")
	require.NoError(t, err)
	return string(text)
}

// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachCodeThatCallersGetHasConstant(t *testing.T) {
	codes := func(file string) (codes []string) {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range regexp.MustCompile(`Code = "([A-Z_]+)"`).FindAllStringSubmatch(string(source), -1) {
			codes = append(codes, match[1])
		}
		require.NotEmpty(t, codes)
		return codes
	}
	require.ElementsMatch(t, codes("../internal/api/problem.go"), append(codes("problem.go"), "CALLER_GONE"), "which no caller reads")
}

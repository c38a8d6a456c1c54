// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
)

// printJSON prints value as one indented document.
func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

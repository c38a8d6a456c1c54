// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"text/tabwriter"
)

// printTable prints rows of cells in aligned columns.
func printTable(out io.Writer, rows [][]string) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		if _, err := io.WriteString(table, strings.Join(cells, "\t")+"\n"); err != nil {
			return err
		}
	}
	return table.Flush()
}

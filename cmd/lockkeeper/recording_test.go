// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"fmt"
	"html"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
)

const recordingFile = "../../docs/images/demo.svg"

var update = flag.Bool("update", false, "write the recording of the demo")

// The recording shows the demo's output in fake time, each row when it was printed. The path differs in each run.
func TestRecordingOfDemoIsWhatItPrints(t *testing.T) {
	var out bytes.Buffer
	faketime.Test(t, func(t *testing.T) {
		target, _ := inMemory(t)
		target.name = "3 servers in this process (zktest)"
		ok, err := play(t.Context(), target, &out)
		require.NoError(t, err)
		require.True(t, ok, "%s", &out)
	})
	output := regexp.MustCompile(`/lockkeeper-demo/\w+`).ReplaceAllString(out.String(), "/lockkeeper-demo/h6cqcpaszj")
	picture := recording("$ make demo\n" + output)
	if *update {
		require.NoError(t, os.WriteFile(recordingFile, picture, 0o644))
	}
	written, err := os.ReadFile(recordingFile)
	require.NoError(t, err)
	require.Equal(t, string(written), string(picture),
		"docs/images/demo.svg no longer shows what the demo prints: `go test -run Recording . -update` in cmd/lockkeeper writes it")
}

// recording draws rows of a terminal. Where the SVG is animated, a row appears at the time in its first column.
func recording(output string) []byte {
	const rowHeight, columnWidth, margin, begins = 18, 7.85, 16, 2000
	rows, columns := strings.Split(strings.TrimRight(output, "\n"), "\n"), 0
	for _, row := range rows {
		columns = max(columns, len([]rune(row)))
	}
	width, height := 2*margin+int(columnWidth*float64(columns)), 2*margin+rowHeight*len(rows)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">
<style>
text { font: 13px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d5dbe2; white-space: pre }
.a { fill: #f0c84e } .b { fill: #7ab8f5 } .bad { fill: #ff7b72 } .ok { fill: #56d364 }
@keyframes show { from { opacity: 0 } }
</style>
<rect width="100%%" height="100%%" rx="6" fill="#161b22"/>
`, width, height, width, height)
	at := 0
	for i, row := range rows {
		if found := regexp.MustCompile(`^ +([-+]?\d+)  `).FindStringSubmatch(row); found != nil {
			at, _ = strconv.Atoi(found[1]) // digits
			at += begins
		}
		class := ""
		switch {
		case strings.HasPrefix(row, "ok:"):
			class = "ok"
		case strings.Contains(row, "rejected as stale"), strings.Contains(row, "is partitioned"):
			class = "bad"
		case strings.Contains(row, "  a    "):
			class = "a"
		case strings.Contains(row, "  b    "):
			class = "b"
		}
		fmt.Fprintf(&b, "<text xml:space=\"preserve\" x=\"%d\" y=\"%d\" class=%q style=\"animation: show 10ms %dms backwards\">%s</text>\n",
			margin, margin+13+rowHeight*i, class, at, html.EscapeString(row))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

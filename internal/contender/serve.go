// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
)

// Serve executes commands until the standard input ends. It reports the error of a command as "failed", and the event that a
// command returns, if there is one.
func Serve(commands map[string]func(args []string) (event string, err error)) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		run, known := commands[words[0]]
		if !known {
			Report("failed %s: unknown command", words[0])
			continue
		}
		switch event, err := run(words[1:]); {
		case err != nil:
			Report("failed %s: %v", words[0], err)
		case event != "":
			Report("%s", event)
		}
	}
	return lines.Err()
}

var printing sync.Mutex

// Report prints an event, on one line. It is safe for concurrent use.
func Report(format string, args ...any) {
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(Mark + strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "))
}

// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"strings"
	"sync"
)

// An outputTail keeps the end of a process's output.
type outputTail struct {
	mu   sync.Mutex // guards text
	text []byte
}

// The kept part usually contains the stack of the goroutine that panicked.
const (
	keptBytes    = 8 << 10
	excerptLines = 40
)

// Write never fails: an error would end the copy to the other writers, too.
func (w *outputTail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, b...)
	w.text = w.text[max(0, len(w.text)-keptBytes):]
	return len(b), nil
}

// excerpt returns the kept output as the end of a sentence, "" if there is none.
func (w *outputTail) excerpt() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.TrimSpace(string(w.text))
	if text == "" {
		return ""
	}
	lines := strings.Split(text, "\n")
	return "; its output:\n\t" + strings.Join(lines[max(0, len(lines)-excerptLines):], "\n\t")
}

// SPDX-License-Identifier: Apache-2.0

package pictures

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A question of docs/choosing.md. A "no" leads to the next question, a "yes" to the answer.
type question struct {
	text, heading, yes string
	guard              bool // the answer needs a guard at the resource
}

var questions = []question{
	{"Is it one item, in a store\nwith compare-and-set?", "## 1. Do you need a lock at all?", "no lock: a conditional write,\na unique key, SKIP LOCKED", false},
	{"Must processes only know\nof each other, or start together?", "## 1. Do you need a lock at all?", "group, barrier", false},
	{"Is it a job that runs\nat set times?", "## 1. Do you need a lock at all?", "schedule", true},
	{"May several work at the\nsame time, up to a limit?", "## Which recipe do I need?", "lock.Semaphore,\nlock.RWMutex for readers", false},
	{"Does one process decide\nfor all, for long?", "## Which recipe do I need?", "election.Election", true},
	{"Is a second run only\nwasteful?", "## 2. For efficiency, or for correctness?", "lock.Mutex:\nan efficiency lock", false},
	{"Can the resource compare\ntokens and write in one step?", "## 3. Which guard?", "lock.Mutex or lock.All,\nand a guard: a correctness lock", true},
}

const lastAnswer = "lock.Mutex, and one of: a service in front, a new place,\nrepetition without harm, an outbox, isolating the old holder"

func TestPictureOfChoiceAsksWhatThePageAsks(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "choosing.md"))
	require.NoError(t, err)
	for _, q := range questions {
		require.Contains(t, string(page), "\n"+q.heading+"\n", "docs/choosing.md has no such section: change the picture with it")
	}
	require.Contains(t, string(page), "\n## 4. What if the resource cannot check?\n")
	compare(t, "choosing.svg", drawChoice())
}

func drawChoice() []byte {
	const step, boxWidth, boxHeight, left, answers = 74.0, 232.0, 46.0, 20.0, 330.0
	height := 88 + step*float64(len(questions)) + boxHeight
	c := newCanvas(640, height)
	c.text(left, 28, 15, 0, black, true, "Which lock, which guard, or none")
	c.box(left, 42, 14, 14, yellow)
	c.text(left+20, 53, 11, 0, grey, false, "needs a guard: the resource checks the fencing token of each write")
	for i, q := range questions {
		y := 72 + step*float64(i)
		c.box(left, y, boxWidth, boxHeight, pale)
		c.frame(left, y, boxWidth, boxHeight, grey)
		c.label(left+boxWidth/2, y+boxHeight/2, q.text)
		c.right(left+boxWidth, answers, y+boxHeight/2)
		c.text(left+boxWidth+30, y+boxHeight/2-5, 11, 0.5, black, true, "yes")
		c.answer(answers, y, 290, boxHeight, q.yes, q.guard)
		c.down(left+boxWidth/2, y+boxHeight, y+step)
		c.text(left+boxWidth/2+8, y+boxHeight+17, 11, 0, black, true, "no")
	}
	c.answer(left, 72+step*float64(len(questions)), 360, boxHeight, lastAnswer, false)
	return c.svg()
}

// answer draws the end of a path through the tree.
func (c *canvas) answer(x, y, width, height float64, text string, guard bool) {
	fill := white
	if guard {
		fill = yellow
	}
	c.box(x, y, width, height, fill)
	c.frame(x, y, width, height, black)
	c.label(x+width/2, y+height/2, text)
}

// label centres lines at a point.
func (c *canvas) label(x, y float64, lines string) {
	const size = 12.0
	c.text(x, y+size/3-size*1.25/2*float64(strings.Count(lines, "\n")), size, 0.5, black, false, lines)
}

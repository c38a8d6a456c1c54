// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// command is the command's binary, built once. It is removed after the tests.
var command = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "lockkeeper-page-")
	if err != nil {
		return "", err
	}
	commandFolder = folder
	binary := filepath.Join(folder, "lockkeeper")
	output, err := exec.Command("go", "build", "-C", "../../cmd/lockkeeper", "-buildvcs=false", "-ldflags=-s", "-o", binary, ".").CombinedOutput()
	if err != nil {
		return "", &buildError{string(output), err}
	}
	return binary, nil
})

var commandFolder string

type buildError struct {
	output string
	err    error
}

func (e *buildError) Error() string { return "build the command: " + e.err.Error() + "\n" + e.output }
func (e *buildError) Unwrap() error { return e.err }

func TestMain(m *testing.M) {
	status := m.Run()
	if commandFolder != "" {
		_ = os.RemoveAll(commandFolder) // of temporary files
	}
	os.Exit(status)
}

// startLab runs `lockkeeper dev --lab`, and returns the address that it prints.
func startLab(t *testing.T) string {
	t.Helper()
	program, err := command()
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, program, "dev", "--lab", "--listen", "127.0.0.1:0", "--lab-listen", "127.0.0.1:0")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // context.Canceled after an interrupt
		require.Equal(t, 0, cmd.ProcessState.ExitCode(), "%s", &stderr)
	})
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if url, found := strings.CutPrefix(lines.Text(), "# laboratory: "); found {
			return url
		}
	}
	require.Fail(t, "dev --lab has printed no address", "%s", &stderr)
	return ""
}

// seekEnd moves the replay to its end.
func (b *browser) seekEnd() {
	b.t.Helper()
	at, err := b.evaluate(`(() => {
		const position = document.querySelector("#position");
		position.value = position.max;
		position.dispatchEvent(new Event("input"));
		return position.value;
	})()`)
	require.NoError(b.t, err)
	require.NotEqual(b.t, "0", at)
}

// The end of each preset, as the page shows it.
var presetEnds = []struct {
	name, fenced, bare string
	log                []string
}{
	{"paused-leader", "1 stale write rejected", "1 stale write accepted", []string{"rejects the stale write", "accepts the stale write"}},
	{"partitioned-leader", "no stale write", "no stale write", []string{"is notified: deadline passed", "expires, and its node is deleted"}},
	{"predecessor-leaves", "no stale write", "no stale write", []string{"has left the queue", "was woken, and waits on"}},
	{"follower-without-leader", "no stale write", "no stale write", []string{"is cut off from the other servers", "continues its session at server"}},
}

func TestEachPresetOfTheLaboratoryIsReplayed(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	url := startLab(t)
	b.visit(url)
	b.shows("#presets", "A follower without its leader")
	count, err := b.evaluate(`document.querySelectorAll("#presets a").length`)
	require.NoError(t, err)
	require.Equal(t, "5", count, "live, and a link for each row of presetEnds")
	for _, p := range presetEnds {
		b.follow("#preset-" + p.name)
		b.shows("#title", b.text("#preset-"+p.name)) // until then, the page shows the preset before this one
		b.shows("#presets [aria-current]", b.text("#title"))
		b.shows("#state", "A recording in the fake time of zktest, seed 1")
		b.seekEnd()
		b.shows("#fenced .verdict", p.fenced)
		b.shows("#bare .verdict", p.bare)
		for _, text := range p.log {
			b.shows("#log", text)
		}
		href, err := b.evaluate(`document.querySelector("#explains a").href`)
		require.NoError(t, err)
		require.Contains(t, href, "/docs/", "the docs explain it")
	}
}

// hold makes the page wait for the recording of a preset until release is called, which sets late when the page has had it.
const hold = `(() => {
	const real = fetch;
	fetch = async (url, ...rest) => {
		const answer = await real(url, ...rest);
		if (!url.includes("paused-leader")) return answer;
		const content = await answer.json();
		await new Promise((done) => { release = done; });
		return { ok: true, json: async () => { setTimeout(() => { late = true; }); return content; } };
	};
})()`

func TestRecordingThatArrivesAfterAnotherPresetWasChosenIsNotShown(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	b.visit(startLab(t))
	b.shows("#presets", "A follower without its leader")
	_, err := b.evaluate(hold)
	require.NoError(t, err)
	b.follow("#preset-paused-leader")
	b.becomes("typeof release", "function")
	b.becomes("document.body.dataset.known", "false") // the page does not show the running laboratory under the title of a preset
	b.follow("#preset-predecessor-leaves")
	b.shows("#state", "seed 1")
	b.seekEnd()
	clock := b.text("#clock")
	_, err = b.evaluate("release()")
	require.NoError(t, err)
	b.becomes("typeof late", "boolean")
	require.Equal(t, clock, b.text("#clock"))
	require.Equal(t, b.text("#preset-predecessor-leaves"), b.text("#title"))
}

func TestSeedInTheAddressChoosesTheRun(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	url := startLab(t)
	b.visit(url + "#preset=paused-leader&seed=2")
	b.shows("#state", "seed 2")
	b.do(chromedp.SendKeys("#speed", "4"))
	b.shows("#fenced .verdict", "1 stale write rejected") // it plays by itself
	b.shows("#toggle", "Replay")
	second := b.text("#clock")
	b.do(chromedp.SendKeys("#seed", "3"))
	b.shows("#state", "seed 3")
	b.seekEnd()
	require.NotEqual(t, second, b.text("#clock"))
	address, err := b.evaluate("location.hash")
	require.NoError(t, err)
	require.Equal(t, "#preset=paused-leader&seed=3", address)
}

func TestPresetOrSeedThatDoesNotExistIsReported(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	url := startLab(t)
	b.visit(url + "#preset=follower-with-leader")
	b.shows("#problem", `preset "follower-with-leader" does not exist: must be one of paused-leader, partitioned-leader,`)
	b.shows("h2", "No such preset")
	b.follow("#preset-paused-leader")
	b.shows("#state", "seed 1")
	require.Empty(t, b.text("#problem"))
	b.visit("about:blank")
	b.visit(url + "#preset=paused-leader&seed=99")
	b.shows("#problem", `preset paused-leader was not recorded with seed "99": recorded are 1, 2, 3`)
}

// The processes are real, and so is the pause.
func TestPausedProcessWritesStaleWhenItIsResumedOnThePage(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	b.visit(startLab(t))
	b.shows("#contender-c .lock", "waits, and watches b")
	// On a busy machine a pause can come after a write, so that there is no stale one. The next holder is next then.
	names := []string{"a", "b", "c"}
	for i := 0; !strings.Contains(b.text("#fenced .verdict"), "rejected"); i++ {
		require.Less(t, i, 5)
		holder, next := names[i%3], names[(i+1)%3]
		pause := chromedp.Click(`#contender-` + holder + ` [data-action="pause"]`)
		b.shows("#contender-"+holder+" .lock", "believes it holds the lock")
		b.do(pause)
		b.shows("#contender-"+holder+" .process", "paused")
		b.shows("#contender-"+holder+" .lock", "believes it holds the lock, token ")
		b.shows("#contender-"+next+" .lock", "believes it holds the lock")
		b.shows("#fenced .value", next+"-")
		b.shows("#bare .value", next+"-")
		b.do(pause) // it resumes
		b.shows("#contender-"+holder+" .lock", "waits, and watches")
	}
	b.shows("#fenced .verdict", "1 stale write rejected")
	b.shows("#bare .verdict", "accepted")
	b.shows("#log", "rejects the stale write")

	b.do(chromedp.Click("#fenced button"))
	b.shows("#fenced .verdict", "AWAY: refuses connections.")
	b.shows("#log", "to the fenced register: Put")
	b.do(chromedp.Click("#fenced button"), chromedp.SendKeys("#fault", "isolate 9"), chromedp.Click("#servers-form button"))
	b.shows("#problem", `server "9": must be 1 to 3`)
}

// labFaults are what a reader of the laboratory would complain about.
const labFaults = `(() => {
	const found = [];
	if (document.documentElement.scrollWidth > innerWidth) found.push("the page scrolls sideways");
	for (const e of document.querySelectorAll("main p, main button, main li, main select, main svg, header a")) {
		const box = e.getBoundingClientRect();
		if (box.width && (box.left < 0 || box.right > innerWidth + 0.5)) found.push("not in the window: " + e.textContent);
	}
	for (const button of document.querySelectorAll("button")) {
		if (!button.textContent && !button.hidden) found.push("without a label: " + button.outerHTML);
	}
	return found.join("; ");
})()`

func TestLaboratoryFitsAPhoneAndADesk(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	url := startLab(t)
	for _, width := range []int64{390, 1200} {
		b.do(chromedp.EmulateViewport(width, 800))
		for _, page := range []string{"", "#preset=paused-leader&seed=1", "#preset=nothing"} {
			b.visit("about:blank")
			b.visit(url + page)
			switch page {
			case "":
				b.shows("#contender-c .lock", "waits, and watches b")
			case "#preset=nothing":
				b.shows("#problem", "does not exist")
			default:
				b.shows("#state", "seed 1")
				b.seekEnd()
			}
			found, err := b.evaluate(labFaults)
			require.NoError(t, err)
			require.Empty(t, found, "%q at %d pixels", page, width)
		}
	}
}

// With -update the test makes the picture of the README anew: the end of a recording, which is the same each time.
func TestPictureOfTheLaboratoryIsSmall(t *testing.T) {
	if *update {
		b := openBrowser(t)
		b.do(chromedp.EmulateViewport(1200, 100))
		b.visit(startLab(t) + "#preset=paused-leader&seed=1")
		b.shows("#state", "seed 1")
		b.seekEnd()
		b.shows("#fenced .verdict", "1 stale write rejected")
		screenshot, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(images+"lab.png", shrink(t, screenshot), 0o644))
	}
	content, err := os.ReadFile(images + "lab.png")
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(content, []byte("\x89PNG")))
	require.Less(t, len(content), 150_000)
}

// shrink returns a picture with its 256 most frequent colours: the others, at the edges of letters, become the nearest of these.
func shrink(t *testing.T, content []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(content))
	require.NoError(t, err)
	box, pixels := full.Bounds(), map[color.Color]int{}
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			pixels[full.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(pixels), func(a, b color.Color) int { return cmp.Compare(pixels[b], pixels[a]) })
	small := image.NewPaletted(box, colours[:min(len(colours), 256)])
	draw.Draw(small, box, full, box.Min, draw.Src)
	var b bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, small))
	return b.Bytes()
}

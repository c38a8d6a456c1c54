// SPDX-License-Identifier: Apache-2.0

package pictures

import (
	"fmt"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// oneServer is how many writes a second one server carried out, with the load generator on the same two cores and no quorum to
// ask: docs/costs.md.
const oneServer = 16_000

// writes returns how many quorum writes a client makes in a session timeout, where each holds one lock, over ten of them.
func writes(t *testing.T, clients int, timeout time.Duration) (each float64) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, &zktest.Options{Tick: timeout / 8, InMemory: true})
		for i := range clients {
			client, err := recipes.Connect(t.Context(), srv.Addrs(), &recipes.Options{SessionTimeout: timeout, Dial: srv.Dial, Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			t.Cleanup(func() { client.Close() })
			mu, err := lock.New(client, fmt.Sprintf("/locks/%d", i), nil)
			require.NoError(t, err)
			_, err = mu.Lock(t.Context())
			require.NoError(t, err)
		}
		time.Sleep(timeout) // the first heartbeats come sooner
		all := srv.Intercept(zktest.Rule{Op: "multi"})
		time.Sleep(10 * timeout)
		for _, count := range all.Counts() {
			each += float64(count.Requests)
		}
		each = math.Round(each / float64(10*clients))
	})
	return each
}

func TestPictureOfWritesIsMeasured(t *testing.T) {
	plot.DefaultFont.Variant = "Sans"
	p := plot.New()
	p.Title.Text = "Quorum writes a second, for clients that hold or wait"
	p.Title.Padding = 8
	p.X.Label.Text, p.Y.Label.Text = "clients", "writes a second"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 1, 100_000, 0.1, 100_000
	p.X.Tick.Marker, p.Y.Tick.Marker = powers(0, 5), powers(-1, 5)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = pale, pale
	p.Add(grid)
	p.Legend.Padding, p.Legend.XOffs, p.Legend.YOffs = 4, -6, 10
	for i, timeout := range []time.Duration{4 * time.Second, 10 * time.Second, 40 * time.Second} {
		var measured plotter.XYs
		for _, clients := range []int{1, 3, 10, 30} {
			each := writes(t, clients, timeout)
			require.Equal(t, 6.0, each, "docs/costs.md says 6/T a second and client")
			measured = append(measured, plotter.XY{X: float64(clients), Y: each * float64(clients) / timeout.Seconds()})
		}
		points, err := plotter.NewScatter(measured)
		require.NoError(t, err)
		line, err := plotter.NewLine(plotter.XYs{{X: 1, Y: 6 / timeout.Seconds()}, {X: 100_000, Y: 600_000 / timeout.Seconds()}})
		require.NoError(t, err)
		colour := []draw.GlyphStyle{{Color: red}, {Color: blue}, {Color: green}}[i].Color
		line.Color, line.Width = colour, 1.5
		points.GlyphStyle = draw.GlyphStyle{Color: colour, Radius: 3.5, Shape: draw.CircleGlyph{}}
		p.Add(line, points)
		p.Legend.Add(fmt.Sprintf("T = %v", timeout), line, points)
	}
	limit, err := plotter.NewLine(plotter.XYs{{X: 1, Y: oneServer}, {X: 100_000, Y: oneServer}})
	require.NoError(t, err)
	limit.Color, limit.Dashes = grey, []vg.Length{4, 3}
	p.Add(limit)
	p.Legend.Add("one server on two cores, without a quorum", limit)
	c := vgsvg.New(620, 420)
	p.Draw(draw.Crop(draw.New(c), 10, -20, 10, -10))
	compare(t, "writes.svg", svg(c))
}

// powers returns ticks at powers of ten.
func powers(from, to int) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for n := from; n <= to; n++ {
		value := math.Pow10(n)
		label := fmt.Sprint(value)
		if value >= 1000 {
			label = fmt.Sprintf("%d,000", int(value/1000))
		}
		ticks = append(ticks, plot.Tick{Value: value, Label: label})
	}
	return ticks
}

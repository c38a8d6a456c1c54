// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/lockkeeper/lockkeeper/proof/torture/pictures"
)

var (
	pale    = color.RGBA{0xea, 0xee, 0xf2, 0xff}
	grey    = color.RGBA{0x57, 0x60, 0x6a, 0xff}
	colours = map[string]color.Color{
		ours: color.RGBA{0x2d, 0xa4, 0x4e, 0xff}, zkLock: color.RGBA{0x54, 0x9c, 0xe6, 0xff}, "Curator": color.RGBA{0xf0, 0xc8, 0x4e, 0xff},
		"Kazoo": color.RGBA{0x9a, 0x67, 0xc9, 0xff}, "etcd": color.RGBA{0xcf, 0x22, 0x2e, 0xff}, "redsync": color.RGBA{0xc4, 0xcb, 0xd3, 0xff},
	}
)

// pictures returns the plots of the page, by the name of the file.
func (ds documents) pictures() (map[string][]byte, error) {
	plot.DefaultFont.Variant = "Sans"
	all := map[string][]byte{}
	for name, draw := range map[string]func(*plot.Plot) error{
		"performance-rates.svg": ds.drawRates, "performance-bytes.svg": ds.drawBytes, "performance-growth.svg": ds.drawGrowth,
	} {
		p := plot.New()
		p.Title.Padding = 8
		p.Legend.Top = true
		p.Legend.Padding, p.Legend.XOffs, p.Legend.YOffs = 4, -6, -4
		if err := draw(p); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[name] = drawn(p)
	}
	return all, nil
}

func drawn(p *plot.Plot) []byte {
	c := vgsvg.New(720, 420)
	p.Draw(draw.Crop(draw.New(c), 10, -20, 10, -10))
	return pictures.SVG(c)
}

// drawRates draws the rates of libraries against the bare client's.
func (ds documents) drawRates(p *plot.Plot) error {
	p.Title.Text = "Locks and unlocks a second, against the bare ZooKeeper client's (bars above 4 are cut)"
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = pale, color.Transparent
	p.Add(grid)
	const width = 9
	var labels []string
	for i, library := range ds.libraries() {
		var values plotter.Values
		for _, row := range ds.Compared() {
			for _, servers := range []int{1, 3} {
				v, _ := ds.median(row.Case, servers, library, "rate/"+bare)
				values = append(values, v)
				if i == 0 {
					labels = append(labels, fmt.Sprintf("%s\n%d %s", strings.ReplaceAll(row.About, ", ", "\n"), servers, plural(servers, "server")))
				}
			}
		}
		bars, err := plotter.NewBarChart(values, width)
		if err != nil {
			return err
		}
		bars.Color, bars.LineStyle.Width = colours[library], 0
		bars.Offset = width * vg.Length(i-len(ds.libraries())/2)
		p.Add(bars)
		p.Legend.Add(library, bars)
	}
	one, err := plotter.NewLine(plotter.XYs{{X: -0.5, Y: 1}, {X: float64(len(labels)) - 0.5, Y: 1}})
	if err != nil {
		return err
	}
	one.Color, one.Dashes = grey, []vg.Length{4, 3}
	p.Add(one)
	p.NominalX(labels...)
	p.X.Tick.Label.Font.Size = 8
	p.Y.Min, p.Y.Max = 0, 4
	return nil
}

// logarithmic gives a plot two logarithmic axes, in powers of ten.
func logarithmic(p *plot.Plot, fromX, toX, fromY, toY int) {
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = math.Pow10(fromX), math.Pow10(toX), math.Pow10(fromY), math.Pow10(toY)
	p.X.Tick.Marker, p.Y.Tick.Marker = powers(fromX, toX), powers(fromY, toY)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = pale, pale
	p.Add(grid)
	p.Legend.Left, p.Legend.XOffs = true, 6
}

// powers returns ticks at powers of ten.
func powers(from, to int) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for n := from; n <= to; n++ {
		label := fmt.Sprint(math.Pow10(n))
		if n >= 3 {
			label = grouped(int(math.Pow10(n)))
		}
		ticks = append(ticks, plot.Tick{Value: math.Pow10(n), Label: label})
	}
	return ticks
}

// drawBytes draws what the server sends for a hand-off.
func (ds documents) drawBytes(p *plot.Plot) error {
	p.Title.Text = "Bytes that the server sends for a hand-off"
	p.X.Label.Text, p.Y.Label.Text = "waiters, each with its own session", "bytes"
	logarithmic(p, 1, 4, 1, 6)
	for _, library := range []string{ours, zkLock} {
		var measured plotter.XYs
		for _, n := range crowds {
			if v, found := ds.median(fmt.Sprintf("waiters-%d", n), 1, library, inSessions+"hand-off bytes"); found {
				measured = append(measured, plotter.XY{X: float64(n), Y: v})
			}
		}
		if err := addLine(p, library, colours[library], measured, true); err != nil {
			return err
		}
	}
	return nil
}

// drawGrowth draws the writes of many clients, by calculation from the measured ones.
func (ds documents) drawGrowth(p *plot.Plot) error {
	p.Title.Text = "Quorum writes a second of clients that do nothing but hold or wait, T = 10 s"
	p.X.Label.Text, p.Y.Label.Text = "clients", "writes a second"
	logarithmic(p, 1, 5, -1, 7)
	for _, line := range []struct {
		name   string
		of     func(n int) float64
		colour color.Color
		dashed bool
	}{
		{"each holds a lock", ds.writesOfHolders, colours[ours], false},
		{"one holds the lock for which all others wait", ds.writesOfWaiters, colours[zkLock], false},
		{"what one server carried out in this measurement", func(int) float64 { return ds.capacity(1) }, grey, true},
		{"what three servers carried out", func(int) float64 { return ds.capacity(3) }, colours["etcd"], true},
	} {
		var points plotter.XYs
		for _, n := range growths {
			if v := line.of(n); v > 0 {
				points = append(points, plotter.XY{X: float64(n), Y: v})
			}
		}
		if err := addLine(p, line.name, line.colour, points, !line.dashed); err != nil {
			return err
		}
	}
	return nil
}

// addLine adds a line through points, with a dot at each or dashed. No points are no line.
func addLine(p *plot.Plot, name string, colour color.Color, xys plotter.XYs, dots bool) error {
	if len(xys) == 0 {
		return nil
	}
	line, points, err := plotter.NewLinePoints(xys)
	if err != nil {
		return err
	}
	line.Color, line.Width = colour, 1.5
	points.GlyphStyle = draw.GlyphStyle{Color: colour, Radius: 3.5, Shape: draw.CircleGlyph{}}
	if !dots {
		line.Dashes = []vg.Length{4, 3}
		p.Add(line)
		p.Legend.Add(name, line)
		return nil
	}
	p.Add(line, points)
	p.Legend.Add(name, line, points)
	return nil
}

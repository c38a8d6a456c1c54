// SPDX-License-Identifier: Apache-2.0

package pictures

import (
	"bytes"
	"image/color"
	"strings"

	stdfont "golang.org/x/image/font"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgsvg"
)

var (
	black  = color.RGBA{0x1b, 0x1f, 0x24, 0xff}
	grey   = color.RGBA{0x57, 0x60, 0x6a, 0xff}
	silver = color.RGBA{0xc4, 0xcb, 0xd3, 0xff}
	pale   = color.RGBA{0xea, 0xee, 0xf2, 0xff}
	white  = color.RGBA{0xff, 0xff, 0xff, 0xff}
	blue   = color.RGBA{0x54, 0x9c, 0xe6, 0xff}
	green  = color.RGBA{0x2d, 0xa4, 0x4e, 0xff}
	red    = color.RGBA{0xcf, 0x22, 0x2e, 0xff}
	yellow = color.RGBA{0xf0, 0xc8, 0x4e, 0xff}
)

var fonts = font.NewCache(liberation.Collection())

// A canvas draws in points from its upper left corner.
type canvas struct {
	*vgsvg.Canvas
	height float64
}

func newCanvas(width, height float64) *canvas {
	c := &canvas{vgsvg.New(vg.Length(width), vg.Length(height)), height}
	c.box(0, 0, width, height, white)
	return c
}

// at converts a point.
func (c *canvas) at(x, y float64) vg.Point {
	return vg.Point{X: vg.Length(x), Y: vg.Length(c.height - y)}
}

func (c *canvas) box(x, y, width, height float64, fill color.Color) {
	c.SetColor(fill)
	c.Fill(c.polygon(x, y, x+width, y, x+width, y+height, x, y+height))
}

// frame draws the border of a box.
func (c *canvas) frame(x, y, width, height float64, line color.Color) {
	c.SetColor(line)
	c.SetLineWidth(1)
	c.Stroke(c.polygon(x, y, x+width, y, x+width, y+height, x, y+height))
}

// polygon returns a closed path through points, given as x and y in turn.
func (c *canvas) polygon(xy ...float64) vg.Path {
	var p vg.Path
	p.Move(c.at(xy[0], xy[1]))
	for i := 2; i < len(xy); i += 2 {
		p.Line(c.at(xy[i], xy[i+1]))
	}
	p.Close()
	return p
}

func (c *canvas) line(x1, y1, x2, y2, width float64, colour color.Color, dashes ...vg.Length) {
	c.SetColor(colour)
	c.SetLineWidth(vg.Length(width))
	c.SetLineDash(dashes, 0)
	var p vg.Path
	p.Move(c.at(x1, y1))
	p.Line(c.at(x2, y2))
	c.Stroke(p)
	c.SetLineDash(nil, 0)
}

// down draws an arrow to a point below.
func (c *canvas) down(x, y1, y2 float64) {
	c.line(x, y1, x, y2-5, 1, black)
	c.SetColor(black)
	c.Fill(c.polygon(x, y2, x-4, y2-7, x+4, y2-7))
}

// right draws an arrow to a point on the right.
func (c *canvas) right(x1, x2, y float64) {
	c.line(x1, y, x2-5, y, 1, black)
	c.SetColor(black)
	c.Fill(c.polygon(x2, y, x2-7, y-4, x2-7, y+4))
}

func (c *canvas) dot(x, y, radius float64, fill color.Color) {
	var p vg.Path
	p.Move(c.at(x+radius, y))
	p.Arc(c.at(x, y), vg.Length(radius), 0, 2*3.141592653589793)
	p.Close()
	c.SetColor(fill)
	c.Fill(p)
}

// cross marks a rejection.
func (c *canvas) cross(x, y, radius float64) {
	c.line(x-radius, y-radius, x+radius, y+radius, 2.5, red)
	c.line(x-radius, y+radius, x+radius, y-radius, 2.5, red)
}

// text writes lines, the first with its baseline at y. An align of 0 begins at x, 0.5 is centred there, 1 ends there.
func (c *canvas) text(x, y, size, align float64, colour color.Color, bold bool, lines string) {
	f := font.Font{Typeface: "Liberation", Variant: "Sans"}
	if bold {
		f.Weight = stdfont.WeightBold
	}
	face := fonts.Lookup(f, vg.Length(size))
	c.SetColor(colour)
	for i, line := range strings.Split(lines, "\n") {
		width := face.Width(line).Points()
		c.FillString(face, c.at(x-align*width, y+float64(i)*size*1.25), line)
	}
}

// svg returns the picture. Arial has the same widths as the font in which they were measured.
func (c *canvas) svg() []byte { return SVG(c.Canvas) }

// SVG returns a picture whose text any browser shows in the widths for which it was drawn.
func SVG(c *vgsvg.Canvas) []byte {
	var b bytes.Buffer
	_, _ = c.WriteTo(&b) // a buffer has no errors
	return bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans"), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif"))
}

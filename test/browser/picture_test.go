//go:build browser

package browser

import (
	"bytes"
	"cmp"
	"flag"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// pictures is the folder for pictures of the documentation.
var pictures = flag.String("pictures", filepath.Join("..", "..", "dist", "browser"), "folder to write the documentation's pictures to")

// mostPictureBytes is the greatest size of a picture of the documentation. Every clone of the repository
// fetches all past versions of it.
const mostPictureBytes = 150 << 10

func TestThePictureOfTheDashboardIsSmall(t *testing.T) {
	b := newBoard(t)
	b.show(t, sampleCluster(24, start), start)
	p := b.visit(t, view{"light", 1280})
	p.do(t, command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 1280, Height: 1000, DeviceScaleFactor: 1}))
	p.until(t, "document.querySelector('#nodes').clientWidth < 900")
	text := fewerColours(t, result(t, p, chromedp.CaptureScreenshot()))
	if len(text) > mostPictureBytes {
		t.Errorf("%d bytes, want %d at most", len(text), mostPictureBytes)
	}
	if err := os.WriteFile(filepath.Join(*pictures, "dashboard.png"), text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// fewerColours returns a picture reduced to its 256 most frequent colours, with colours that are not grey
// weighted higher. Each other colour is replaced by the nearest of them.
func fewerColours(t *testing.T, text []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	bounds := full.Bounds()
	count := map[color.RGBA]int{}
	each := func(do func(x, y int, c color.RGBA)) {
		for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
			for x := bounds.Min.X; x < bounds.Max.X; x++ {
				do(x, y, color.RGBAModel.Convert(full.At(x, y)).(color.RGBA))
			}
		}
	}
	each(func(_, _ int, c color.RGBA) { count[c] += 1 + int(max(c.R, c.G, c.B)-min(c.R, c.G, c.B)) })
	byUse := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	for _, c := range byUse[:min(256, len(byUse))] {
		palette = append(palette, c)
	}
	nearest := map[color.RGBA]uint8{}
	for _, c := range byUse {
		nearest[c] = uint8(palette.Index(c))
	}
	small := image.NewPaletted(bounds, palette)
	each(func(x, y int, c color.RGBA) { small.SetColorIndex(x, y, nearest[c]) })
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

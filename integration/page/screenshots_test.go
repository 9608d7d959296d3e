package page_test

import (
	"bytes"
	"cmp"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

var screenshots = flag.String("screenshots", "", "the directory for screenshots of the page (docs/tool)")

// Pictures for docs/tool.md, of what the other tests check: make screenshots.
func TestPage_Screenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("only with -screenshots")
	}
	servers := testredis.Real(t, 5, "--appendonly", "yes", "--appendfsync", "always", "--maxmemory", "100mb", "--maxmemory-policy", "noeviction")
	_, err := servers[1].Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	require.NoError(t, err)
	alice, bob := program(t, servers), program(t, servers)
	s, b := serve(t, servers, "127.0.0.1:0", "--allow-unlock", "--durable", "all"), browse(t)
	b.open(s.url)
	b.see("#live", "^Live$")
	for i, lock := range []struct{ name, holder string }{
		{"nightly/backup", "db-3, pid 812"}, {"nightly/report", "worker-2"}, {"orders/4711", "checkout-7"}, {"orders/4712", "checkout-1"},
		{"leader/scheduler", "scheduler-1"}, {"tenants/acme/reindex", "search-4"},
	} {
		_, err := alice.Lock(t.Context(), lock.name, redlock.Metadata(lock.holder), redlock.TTL(time.Duration(i+1)*25*time.Second))
		require.NoError(t, err)
	}
	brief := take(t, alice, "invoices/2041", "billing-1")
	b.see("#locks", "invoices/2041")
	require.NoError(t, brief.Unlock(t.Context()))
	take(t, bob, "invoices/2041", "billing-2")
	b.see("#changes", "billing-2")
	for i, server := range servers {
		value := []string{"left-by-hand", "left-by-hand", "left-by-hand", "left-by-hand", "left-by-hand"}[i]
		_, err := server.Do("SET", "lock:migration", value)
		require.NoError(t, err)
	}
	_, err = servers[0].Do("SET", "lock:orders/4699", "an attempt that hung", "PX", 90_000)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return value[bool](b, `document.querySelector(".spark").getAttribute("aria-label").includes("last 60 tries")`)
	},
		settleBound, settleLook, "the latencies are few")
	servers[3].Freeze()
	defer servers[3].Thaw()
	b.see(".node.down", "no answer")
	require.Eventually(t, func() bool { return value[int](b, `document.querySelectorAll(".node.down .miss").length`) > 5 }, settleBound, settleLook)
	for _, scheme := range []string{"light", "dark"} {
		_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		require.NoError(t, err)
		for name, width := range map[string]int64{"wide": 1280, "narrow": 360} {
			b.do(chromedp.EmulateViewport(width, map[string]int64{"wide": 940, "narrow": 1300}[name]))
			b.see("#live", "^Live$")
			picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(*screenshots, "page-"+scheme+"-"+name+".png"), smaller(t, picture), 0o644))
		}
	}
}

// smaller reduces a picture to 256 colours: of those that are much alike to the most frequent one.
func smaller(t *testing.T, picture []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(picture))
	require.NoError(t, err)
	counts := map[color.Color]int{}
	for y := range full.Bounds().Dy() {
		for x := range full.Bounds().Dx() {
			counts[full.At(x, y)]++
		}
	}
	var palette color.Palette
	alike := map[[3]uint32]bool{}
	for _, c := range slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return cmp.Compare(counts[b], counts[a]) }) {
		r, g, b, _ := c.RGBA()
		if key := [3]uint32{r >> 12, g >> 12, b >> 12}; !alike[key] || len(palette) < 16 {
			alike[key], palette = true, append(palette, c)
		}
	}
	reduced := image.NewPaletted(full.Bounds(), palette[:min(len(palette), 256)])
	draw.Draw(reduced, full.Bounds(), full, image.Point{}, draw.Src)
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	require.NoError(t, encoder.Encode(&b, reduced))
	return b.Bytes()
}

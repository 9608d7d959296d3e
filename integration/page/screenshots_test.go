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

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

var screenshots = flag.String("screenshots", "", "the directory docs, for screenshots of the page")

// wanted skips a test that makes pictures, unless they are wanted.
func wanted(t *testing.T) {
	t.Helper()
	if *screenshots == "" {
		t.Skip("only with -screenshots")
	}
}

// shoot takes a picture of the page in light or dark colours, at a size.
func (b *browser) shoot(name, scheme string, width, height int64) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	require.NoError(b.t, err)
	b.do(chromedp.EmulateViewport(width, height))
	b.see("#live", "^Live$")
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(*screenshots, name+".png"), smaller(b.t, picture), 0o644))
}

var schemes = []string{"light", "dark"}

// Pictures for docs/tool.md, of what the other tests check: make screenshots.
func TestPage_Screenshots(t *testing.T) {
	wanted(t)
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
	for _, lock := range []*redlock.Lock{brief, take(t, bob, "invoices/2041", "billing-2")} {
		testredis.Subscribe(t, servers, form.OwnerChannel(string(lock.Token()[:8])))
	}
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
	for _, scheme := range schemes {
		b.shoot("tool/page-"+scheme+"-wide", scheme, 1280, 940)
		b.shoot("tool/page-"+scheme+"-narrow", scheme, 360, 1300)
	}
}

// An outage: three of five nodes do not answer, and nobody can take or free a lock.
func TestPage_ScreenshotsOfAnOutage(t *testing.T) {
	wanted(t)
	servers := testredis.Real(t, 5)
	alice := program(t, servers)
	s, b := serve(t, servers, "127.0.0.1:0", "--allow-unlock", "--examine-every", "10s"), browse(t)
	b.open(s.url)
	b.see("#locks", "No locks are held")
	for name, holder := range map[string]string{
		"nightly/backup": "db-3, pid 812", "nightly/report": "worker-2", "orders/4711": "checkout-7", "leader/scheduler": "scheduler-1",
	} {
		take(t, alice, name, holder)
	}
	b.see("#locks", "(?s)backup.*report.*4711")
	b.see("#locks td.held", `[2-9] s`)
	b.see("#doctor", `checks at`)
	for _, server := range servers[2:] {
		server.Freeze()
		defer server.Thaw()
	}
	b.see("#summary", "Only 2 of 5 nodes answer")
	b.see("#locks", "perhaps scheduler-1")
	for _, scheme := range schemes {
		b.shoot("pictures/page-outage-"+scheme, scheme, 1280, 940)
	}
	b.shoot("pictures/page-outage-narrow", "light", 390, 1400)
}

// Many locks: the third of ten pages, at its end.
func TestPage_ScreenshotsOfManyLocks(t *testing.T) {
	wanted(t)
	servers := testredis.Real(t, 5)
	many(t, servers)
	s, b := serve(t, servers, "127.0.0.1:0"), browse(t)
	b.open(s.url + "?page=3")
	b.see("#doctor", `checks at`) // which takes locks too
	b.see(".tally", "500 locks. Page 3 of 10.")
	b.see("#locks .held", `≥ [2-9] s`)
	for _, scheme := range schemes {
		b.do(chromedp.EmulateViewport(1280, 700))
		value[bool](b, `document.querySelector(".pages").scrollIntoView({block: "end"}), true`)
		b.shoot("pictures/page-many-"+scheme, scheme, 1280, 700)
	}
}

// A lock whose three slots are taken, one by a process that is gone, and two wait.
func TestPage_ScreenshotsOfSharers(t *testing.T) {
	wanted(t)
	servers := testredis.Real(t, 5)
	s, b := serve(t, servers, "127.0.0.1:0", "--allow-unlock"), browse(t)
	b.open(s.url + "lock?name=exports")
	b.see(".state", "held by nobody")
	for i, holder := range []string{"export-1, pid 4711", "export-2, pid 92", "export-5, pid 331"} {
		lock := take(t, program(t, servers), "exports", holder, redlock.Slots(3), redlock.TTL(time.Duration(i+2)*time.Minute))
		if i > 0 {
			testredis.Subscribe(t, servers, form.OwnerChannel(string(lock.Token()[:8])))
		}
	}
	waits(t, servers, "exports")
	waits(t, servers, "exports")
	b.see("#lock dl", "2 wait")
	b.see("#lock .sharers", "(?s)export-1.*kept.*export-2.*export-5")
	b.see("#lock dl", `Held for\s+[2-9] s`)
	b.see("#lock", "No process listens for 1 of the 3 slots")
	for _, scheme := range schemes {
		b.shoot("pictures/page-sharers-"+scheme, scheme, 1280, 900)
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

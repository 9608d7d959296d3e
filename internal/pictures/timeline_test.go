package pictures_test

import (
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/pictures"
)

// document is an SVG document, as far as the tests look at it.
type document struct {
	XMLName xml.Name `xml:"http://www.w3.org/2000/svg svg"`
	ViewBox string   `xml:"viewBox,attr"`
	Title   string   `xml:"title"`
	Desc    string   `xml:"desc"`
	Style   string   `xml:"style"`
	All     []struct {
		XMLName xml.Name
		Class   string  `xml:"class,attr"`
		X       float64 `xml:"x,attr"`
		Y       float64 `xml:"y,attr"`
		Anchor  string  `xml:"text-anchor,attr"`
		Text    string  `xml:",chardata"`
	} `xml:",any"`
}

func parse(t *testing.T, svg []byte) (d document) {
	t.Helper()
	require.NoError(t, xml.Unmarshal(svg, &d))
	return d
}

func (d document) texts() (texts []string) {
	for _, e := range d.All {
		if e.XMLName.Local == "text" {
			texts = append(texts, e.Text)
		}
	}
	return texts
}

// requireReadable checks that all texts are inside the picture and beside each other, and that both colour schemes have
// every class.
func requireReadable(t *testing.T, svg []byte) {
	t.Helper()
	d := parse(t, svg)
	require.NotEmpty(t, d.Title)
	require.NotEmpty(t, d.Desc)
	require.NotContains(t, string(svg), "<script")
	var left, top, width, height float64
	_, err := fmt.Sscan(d.ViewBox, &left, &top, &width, &height)
	require.NoError(t, err)
	light, dark, found := strings.Cut(d.Style, "@media (prefers-color-scheme:dark){")
	require.True(t, found)
	type box struct {
		text                     string
		left, right, top, bottom float64
	}
	var boxes []box
	for _, e := range d.All {
		for _, scheme := range []string{light, dark} {
			require.Contains(t, scheme, "\n."+e.Class+"{", e.XMLName.Local)
		}
		if e.XMLName.Local != "text" {
			continue
		}
		b := box{e.Text, e.X, e.X + pictures.TextWidth(e.Text), e.Y - 9, e.Y + 2}
		switch e.Anchor {
		case "middle":
			b.left, b.right = b.left-(b.right-b.left)/2, (b.left+b.right)/2
		case "end":
			b.left, b.right = b.left-(b.right-b.left), b.left
		}
		require.True(t, b.left >= 0 && b.right <= width && b.top >= 0 && b.bottom <= height, "%+v is not in %s", b, d.ViewBox)
		for _, other := range boxes {
			require.False(t, b.left < other.right && other.left < b.right && b.top < other.bottom && other.top < b.bottom,
				"%+v overlaps %+v", b, other)
		}
		boxes = append(boxes, b)
	}
}

const ms = time.Millisecond

func TestTimeline_EscapesTexts(t *testing.T) {
	hostile := `<script>"&'` + "\x00]]>"
	svg, err := (&pictures.Timeline{Title: hostile, Description: hostile, Legend: []pictures.Sample{{Class: "a", Text: hostile}}, Panels: []pictures.Panel{{
		Heading: hostile, Until: 100 * ms, Rules: []pictures.Rule{{At: ms, Text: hostile}},
		Lanes: []pictures.Lane{{Name: hostile, Bands: []pictures.Band{{Class: "a", To: 90 * ms, Text: hostile}}, Marks: []pictures.Mark{{Class: "no", Text: hostile}}}},
	}}}).SVG()
	require.NoError(t, err)
	requireReadable(t, svg)
	want := strings.ReplaceAll(hostile, "\x00", "�")
	d := parse(t, svg)
	require.Equal(t, want, d.Title)
	n := 0
	for _, text := range d.texts() {
		if text == want {
			n++
		}
	}
	require.Equal(t, 6, n)
}

func TestTimeline_MovesLabelsThatCollide(t *testing.T) {
	for count := range 12 {
		for _, apart := range []time.Duration{0, ms, 7 * ms} {
			var lane pictures.Lane
			var rules []pictures.Rule
			for i := range count {
				at := time.Duration(i) * apart
				lane.Marks = append(lane.Marks, pictures.Mark{Class: "yes", At: at, Text: "a mark " + strconv.Itoa(i)})
				lane.Bands = append(lane.Bands, pictures.Band{Class: "b", From: at, To: at + apart, Text: "a band"})
				rules = append(rules, pictures.Rule{At: 100*ms - at, Text: "a rule"})
			}
			svg, err := (&pictures.Timeline{Title: "t", Description: "d", Panels: []pictures.Panel{{Until: 100 * ms, Lanes: []pictures.Lane{lane}, Rules: rules}}}).SVG()
			require.NoError(t, err)
			requireReadable(t, svg)
		}
	}
}

func TestTimeline_HasRoomForEachTick(t *testing.T) {
	for until := 7 * ms; until < 5000*ms; until += until/40 + ms {
		svg, err := (&pictures.Timeline{Title: "t", Description: "d", Panels: []pictures.Panel{{Until: until, Lanes: []pictures.Lane{{Name: "A's process"}}}}}).SVG()
		require.NoError(t, err)
		requireReadable(t, svg)
		require.Equal(t, 1, strings.Count(string(svg), " ms<"))
	}
}

func TestTimeline_IsRefusedIfTextsDoNotFit(t *testing.T) {
	long := strings.Repeat("long ", 40)
	for _, p := range []pictures.Panel{
		{Until: ms, Lanes: []pictures.Lane{{Name: long}}},
		{Until: ms, Rules: []pictures.Rule{{Text: long}}},
		{Lanes: []pictures.Lane{{Name: "no time"}}},
	} {
		_, err := (&pictures.Timeline{Title: "t", Description: "d", Panels: []pictures.Panel{p}}).SVG()
		require.Error(t, err)
	}
}

package pictures

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Width is the width of a picture in the units of its viewBox, in which text has 13.
const Width = 560

const (
	shown      = 1.25 // how much larger a picture is shown where there is room for it
	lineHeight = 15
)

// style is how the elements of a class look: always, and on a light and a dark page.
type style struct{ class, always, light, dark string }

// styles has every class. What differs by its colour differs by its shape or text as well.
var styles = []style{
	{"page", "", "fill:#ffffff", "fill:#0d1117"},
	{"text", "stroke-width:3px", "fill:#1f2328;stroke:#ffffff", "fill:#e6edf3;stroke:#0d1117"},
	{"soft", "stroke-width:3px", "fill:#59636e;stroke:#ffffff", "fill:#9198a1;stroke:#0d1117"},
	{"strong", "stroke-width:3px;font-weight:bold", "fill:#1f2328;stroke:#ffffff", "fill:#e6edf3;stroke:#0d1117"},
	{"inside", "", "fill:#1f2328", "fill:#f0f6fc"},
	{"grid", "", "stroke:#e3e8ed", "stroke:#262d35"},
	{"axis", "", "stroke:#818b98", "stroke:#7d8590"},
	{"leader", "", "stroke:#818b98", "stroke:#7d8590"},
	{"rule", "stroke-dasharray:4 3", "stroke:#1f2328", "stroke:#e6edf3"},
	{"wait", "stroke-width:1.5;stroke-dasharray:2 2.5", "stroke:#59636e", "stroke:#9198a1"},
	{"a", "", "fill:#b6d7ff;stroke:#0969da", "fill:#1b4b85;stroke:#58a6ff"},
	{"b", "", "fill:#ffd9b0;stroke:#bc4c00", "fill:#70400f;stroke:#f0883e"},
	{"grey", "", "fill:#e6eaef;stroke:#818b98", "fill:#30363d;stroke:#7d8590"},
	{"drift", "", "fill:#f3c6e4;stroke:#99286e", "fill:#6b2450;stroke:#f778ba"},
	{"frozen", "stroke-dasharray:3 2;fill-opacity:0.6", "fill:#f6f8fa;stroke:#59636e", "fill:#161b22;stroke:#9198a1"},
	{"yes", "", "fill:#1a7f37;stroke:#ffffff", "fill:#3fb950;stroke:#0d1117"},
	{"no", "stroke-width:2.5", "stroke:#cf222e", "stroke:#ff7b72"},
	{"unknown", "stroke-width:2", "fill:#ffffff;stroke:#9a6700", "fill:#0d1117;stroke:#d29922"},
	{"arrow", "stroke-width:1.5", "fill:none;stroke:#1f2328", "fill:none;stroke:#e6edf3"},
}

// sheet returns the style sheet of all classes.
func sheet() string {
	var b strings.Builder
	b.WriteString("\ntext{font:13px sans-serif;paint-order:stroke;stroke-linejoin:round}\n")
	for _, s := range styles {
		fmt.Fprintf(&b, ".%s{%s}\n", s.class, strings.TrimPrefix(s.always+";"+s.light, ";"))
	}
	b.WriteString("@media (prefers-color-scheme:dark){\n")
	for _, s := range styles {
		fmt.Fprintf(&b, ".%s{%s}\n", s.class, s.dark)
	}
	b.WriteString("}\n")
	return b.String()
}

// The layers of a picture, from back to front.
const (
	back = iota
	bars
	lines
	signs
	words
)

// element is an SVG element without children but a text.
type element struct {
	layer int
	name  string
	attrs []xml.Attr
	text  string
}

// sketch collects the elements of a picture.
type sketch struct{ elements []element }

// add adds an element. The attributes are pairs of a name and a value, which is a string or a float64.
func (s *sketch) add(layer int, name, class, text string, attributes ...any) {
	e := element{layer: layer, name: name, text: text, attrs: []xml.Attr{attr("class", class)}}
	for i := 0; i < len(attributes); i += 2 {
		e.attrs = append(e.attrs, attr(attributes[i].(string), attributes[i+1]))
	}
	s.elements = append(s.elements, e)
}

func attr(name string, value any) xml.Attr {
	text, ok := value.(string)
	if !ok {
		text = number(value.(float64))
	}
	return xml.Attr{Name: xml.Name{Local: name}, Value: text}
}

// number returns x with at most one decimal.
func number(x float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0")
}

func (s *sketch) line(layer int, class string, x1, y1, x2, y2 float64) {
	s.add(layer, "line", class, "", "x1", x1, "y1", y1, "x2", x2, "y2", y2)
}

func (s *sketch) box(layer int, class string, x, y, width, height float64) {
	s.add(layer, "rect", class, "", "x", x, "y", y, "width", width, "height", height, "rx", min(2, width/2))
}

func (s *sketch) say(class, text string, x, y float64, anchor string) {
	if anchor == "start" {
		s.add(words, "text", class, text, "x", x, "y", y)
		return
	}
	s.add(words, "text", class, text, "x", x, "y", y, "text-anchor", anchor)
}

// document returns the picture as an SVG document.
func (s *sketch) document(title, description string, height float64) ([]byte, error) {
	var b bytes.Buffer
	e := xml.NewEncoder(&b)
	e.Indent("", " ")
	put := func(x element) error {
		start := xml.StartElement{Name: xml.Name{Local: x.name}, Attr: x.attrs}
		tokens := []xml.Token{start, xml.CharData(x.text), start.End()}
		for _, token := range tokens {
			if err := e.EncodeToken(token); err != nil {
				return err
			}
		}
		return nil
	}
	root := xml.StartElement{Name: xml.Name{Local: "svg"}, Attr: []xml.Attr{
		attr("xmlns", "http://www.w3.org/2000/svg"),
		attr("viewBox", "0 0 "+number(Width)+" "+number(height)),
		attr("width", Width*shown), attr("height", height*shown),
		attr("role", "img"), attr("aria-labelledby", "title desc"),
	}}
	if err := e.EncodeToken(root); err != nil {
		return nil, err
	}
	head := []element{
		{name: "title", text: title, attrs: []xml.Attr{attr("id", "title")}},
		{name: "desc", text: description, attrs: []xml.Attr{attr("id", "desc")}},
		{name: "style", text: sheet()},
	}
	slices.SortStableFunc(s.elements, func(x, y element) int { return x.layer - y.layer })
	for _, x := range slices.Concat(head, s.elements) {
		if err := put(x); err != nil {
			return nil, err
		}
	}
	if err := e.EncodeToken(root.End()); err != nil {
		return nil, err
	}
	if err := e.Flush(); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// TextWidth returns how wide a text is at most, in the units of the viewBox: its width in DejaVu Sans, which is wider than the
// other fonts that a viewer takes for sans-serif.
func TextWidth(text string) float64 {
	width := 0.0
	for _, r := range text {
		switch {
		case strings.ContainsRune("ijlI|'", r):
			width += 0.29
		case strings.ContainsRune(" ,.:;!()[]fr-t/", r):
			width += 0.38
		case strings.ContainsRune("mwMWQO@%+=−<>≥", r) || r > 0x2fff:
			width += 1.0
		case r >= 'A' && r <= 'Z', r > 0x7f:
			width += 0.73
		default:
			width += 0.625
		}
	}
	return width * 13
}

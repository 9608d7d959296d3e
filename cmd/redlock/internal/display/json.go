package display

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
)

// JSON writes a value as JSON and a line end, indented by indent for each level unless that is "". Characters that do not print,
// on which a terminal might act, are escaped also where JSON would allow them as they are: a reader of JSON sees no difference.
func JSON(w io.Writer, v any, indent string) error {
	var plain, visible bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	for _, r := range plain.String() { // what does not print is in strings, except for line ends
		switch high, low := utf16.EncodeRune(r); {
		case unicode.IsPrint(r) || r == '\n':
			visible.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&visible, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&visible, `\u%04x`, r)
		}
	}
	_, err := w.Write(visible.Bytes())
	return err
}

// Package display makes what servers and users have sent fit to be shown.
package display

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns a text in one line and without control characters: what does not print, such as an escape sequence of a
// terminal or a character that turns the direction of writing, is written as in a Go string, for example \x1b.
func Text(text string) string { return escape(text, "") }

// Clipped is Text for a text that may be long: of more than most characters it shows the first ones.
func Clipped(text string, most int) string {
	n := 0
	for i := range text {
		if n == most {
			return Text(text[:i]) + "…"
		}
		n++
	}
	return Text(text)
}

// Error returns the text of an error without the names of packages, and visible except that it may have lines, which tabs indent.
func Error(err error) string {
	return escape(strings.NewReplacer("redlock: ", "", "pool: ", "", "nodeerr: ", "").Replace(fmt.Sprintf("%+v", err)), "\n\t")
}

// escape writes all characters of a text that do not print as in a Go string, but for some.
func escape(text, but string) string {
	var b strings.Builder
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		broken := r == utf8.RuneError && size == 1
		if !broken && (unicode.IsPrint(r) || strings.ContainsRune(but, r)) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.Quote(text[i : i+size])
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

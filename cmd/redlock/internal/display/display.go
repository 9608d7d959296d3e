// Package display makes what servers and users have sent fit to be shown.
package display

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
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

// Error returns the text of an error without the names of packages, and visible. Behind it come the [Nodes] of a
// [redlock.QuorumError].
func Error(err error) string {
	text, nodes := fmt.Sprintf("%+v", err), ""
	if refusal := (*redlock.QuorumError)(nil); errors.As(err, &refusal) {
		all := fmt.Sprintf("%+v", refusal)
		head, _, hasNodes := strings.Cut(all, "\n\t")
		for _, form := range []string{all, refusal.Error()} { // an error around it may have made it one line
			if hasNodes && strings.Contains(text, form) {
				text, nodes = strings.Replace(text, form, head, 1), Nodes(refusal)
				break
			}
		}
	}
	text = strings.NewReplacer("redlock: ", "", "pool: ", "", "nodeerr: ", "").Replace(text)
	return escape(strings.ReplaceAll(text, "\n\t", indent), "\n") + nodes
}

// indent begins the line about a node.
const indent = "\n  "

// Nodes returns a line for each node that failed or answered no, with the line end in front. The last line counts the
// nodes that no answer was awaited from.
func Nodes(of *redlock.QuorumError) string {
	var lines strings.Builder
	unneeded := 0
	for i := range of.Nodes {
		switch n := &of.Nodes[i]; {
		case n.Err == nil, of.Op == "inspect" && errors.Is(n.Err, nodeerr.ErrAbsent): // it answered
		case errors.Is(n.Err, nodeerr.ErrUnneeded):
			unneeded++
		default:
			lines.WriteString(indent + Text(n.Error()))
		}
	}
	if unneeded > 0 {
		lines.WriteString(indent + Counted(unneeded, "other node") + ": not waited for")
	}
	return lines.String()
}

// Either says which of several have something: the name of one or two, or how many there are.
func Either(names []string) string {
	if len(names) > 2 {
		return fmt.Sprintf("one of %d", len(names))
	}
	return strings.Join(names, " or ")
}

// Counted is a number and the noun that it counts.
func Counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Several reports whether several may have a lock of a kind at a time. Where nothing is, the kind is "".
func Several(kind redlock.Kind) bool { return kind != "" && kind != redlock.KindExclusive }

// Noun returns the word for one who has a lock of a kind that several have at a time, or for what it has; with an s behind it, for more.
func Noun(kind redlock.Kind) string {
	if kind == redlock.KindSlot {
		return "slot"
	}
	return "reader"
}

// Sharers says how many share a lock of a kind, or that there are more.
func Sharers(n int, more bool, kind redlock.Kind) string {
	text := Counted(n, Noun(kind))
	if more {
		return "over " + text
	}
	return text
}

// Holder returns the metadata of the holder, or how many share the lock. "" means that it is not known.
func Holder(state *redlock.LockState) string {
	switch n := len(state.Holders); {
	case n == 0:
		return ""
	case Several(state.Kind):
		return Counted(n, Noun(state.Kind))
	}
	return state.Holders[0].Metadata
}

// Last returns how much longer a node has sharers, of which the last one ends last. Their key, with its own TTL, stays longer.
func Last(sharers []redlock.Holder, key time.Duration) time.Duration {
	if len(sharers) == 0 || key == redlock.NoLimit {
		return key
	}
	return sharers[len(sharers)-1].TTL
}

// Nouns stands in the place of a token where several share the lock.
func Nouns(kind redlock.Kind) string { return Noun(kind) + "s" }

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

// Package promfile writes metrics as text for Prometheus, and files of them for the textfile collector of
// node_exporter.
package promfile

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Head writes what stands above the samples of a metric, which is a gauge or a counter.
func Head(b *bytes.Buffer, name, kind, help string) {
	fmt.Fprintf(b, "# HELP %[1]s %[2]s\n# TYPE %[1]s %[3]s\n", name, help, kind)
}

// Sample writes a sample. Labels are from [Labels].
func Sample(b *bytes.Buffer, name, labels string, value float64) {
	fmt.Fprintf(b, "%s%s %s\n", name, labels, strconv.FormatFloat(value, 'f', -1, 64))
}

// Labels returns labels in braces; pairs are names and values in turn. No label is an empty text.
func Labels(pairs ...string) string {
	if len(pairs) == 0 {
		return ""
	}
	var parts []string
	for i := 0; i < len(pairs); i += 2 {
		parts = append(parts, pairs[i]+`="`+escaper.Replace(pairs[i+1])+`"`)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// Seconds returns a time as metrics have it.
func Seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

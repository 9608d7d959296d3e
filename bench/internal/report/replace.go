package report

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Replace returns what benchmarks have printed before, with the lines of one section as they have printed them again.
// A setting that differs is an error, such as the machine, a version or the number of passes: the page has one of
// each.
func Replace(before, again []byte, section string) ([]byte, error) {
	if _, err := Read(io.MultiReader(bytes.NewReader(before), bytes.NewReader(again))); err != nil {
		return nil, fmt.Errorf("%w: measure all sections", err)
	}
	of := regexp.MustCompile(`^Benchmark` + regexp.QuoteMeta(section) + `\d*_`)
	var b bytes.Buffer
	for line := range strings.Lines(string(before)) {
		if !of.MatchString(line) {
			b.WriteString(line)
		}
	}
	for line := range strings.Lines(string(again)) {
		if of.MatchString(line) {
			b.WriteString(line)
		}
	}
	return b.Bytes(), nil
}

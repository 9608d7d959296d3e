package docs_test

import (
	"path"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

var (
	// listedFiles matches an item in the list of the files of a package.
	listedFiles = regexp.MustCompile(`(?m)^//   - (.*\b\w+\.go\b.*)$`)
	fileName    = regexp.MustCompile(`\b\w+\.go\b`)
)

func TestComments_ListAllFilesOfAPackage(t *testing.T) {
	t.Parallel()
	lists := 0
	sources := files(t, isSource)
	for _, source := range sources {
		text := textOf(t, source)
		var listed, there []string
		for _, item := range listedFiles.FindAllStringSubmatch(text, -1) {
			listed = append(listed, fileName.FindAllString(item[1], -1)...)
		}
		if len(listed) == 0 {
			continue
		}
		lists++
		for _, other := range sources {
			if base := path.Base(other); path.Dir(other) == path.Dir(source) && base != "doc.go" {
				there = append(there, base)
			}
		}
		slices.Sort(listed)
		assert.Equal(t, there, slices.Compact(listed), source)
	}
	assert.GreaterOrEqual(t, lists, 7)
}

//go:build unix

package docs_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/integration/internal/tool"
)

func TestMain(m *testing.M) {
	name := filepath.Base(os.Args[0])
	if _, ok := programs[name]; ok || slices.Contains(jobs, name) {
		os.Exit(runProgram(name, os.Args[1:]))
	}
	goleak.VerifyTestMain(tool.Tests{M: m})
}

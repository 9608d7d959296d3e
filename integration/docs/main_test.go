//go:build unix

package docs_test

import (
	"fmt"
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
	goleak.VerifyTestMain(suite{m})
}

// suite is a testing.M that removes at its end what was built.
type suite struct{ *testing.M }

func (s suite) Run() int {
	code := s.M.Run()
	if err := tool.Remove(); err != nil {
		fmt.Println(err)
		return 1
	}
	return code
}

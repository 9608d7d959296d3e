// Package tool builds cmd/redlock for tests.
package tool

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// built is the path of redlock, built once; dir is removed at the end.
var built struct {
	sync.Mutex
	dir, path string
}

// Build builds redlock from the repository, whose folder is root, and returns its path.
func Build(t *testing.T, root string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.path == "" {
		dir, err := os.MkdirTemp("", "redlock")
		require.NoError(t, err)
		built.dir = dir
		path := filepath.Join(dir, "redlock")
		out, err := exec.Command("go", "build", "-C", root, "-o", path, "./cmd/redlock").CombinedOutput()
		require.NoError(t, err, "%s", out)
		built.path = path
	}
	return built.path
}

// Tests is a testing.M that removes at its end what Build has built.
type Tests struct{ *testing.M }

// Run runs the tests.
func (t Tests) Run() int {
	code := t.M.Run()
	if err := os.RemoveAll(built.dir); err != nil { // of "", that is nothing
		fmt.Println(err)
		return 1
	}
	return code
}

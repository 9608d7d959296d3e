//go:build unix

package docs_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/integration/internal/tool"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// scratch is where the blocks of one document are run: a folder in the place of /, and servers in the place of those that the
// document names.
type scratch struct {
	t       *testing.T
	dir     string
	servers []*testredis.Process
	mapped  map[string]string // URLs and ports of the document, and what takes their place
	nodes   int               // how many of these are URLs
}

// absolute are the folders of a machine that the scratch has its own of.
var absolute = []string{"/etc/", "/usr/local/bin", "/tmp/"}

func newScratch(t *testing.T) *scratch {
	t.Helper()
	s := &scratch{t: t, dir: t.TempDir(), mapped: map[string]string{}}
	for _, dir := range append(absolute, "bin", "work", "etc/redlock") {
		require.NoError(t, os.MkdirAll(filepath.Join(s.dir, dir), 0o700))
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for name := range programs {
		require.NoError(t, os.Symlink(self, filepath.Join(s.dir, "bin", name)))
	}
	for _, name := range jobs {
		require.NoError(t, os.Symlink(self, filepath.Join(s.dir, "usr/local/bin", name)))
		require.NoError(t, os.Symlink(self, filepath.Join(s.dir, "work", name)))
	}
	s.write("etc/redlock/password", "secret\n")
	s.write("web.json", `{"listen": "127.0.0.1:0"}`) // no fixed port for redlock web
	return s
}

func (s *scratch) write(name, text string) (path string) {
	s.t.Helper()
	path = filepath.Join(s.dir, name)
	require.NoError(s.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// server returns the i-th of the servers, which have the users of the documents with any password: locker, with the rights of
// docs/operations.md, and admin.
func (s *scratch) server(i int) *testredis.Process {
	s.t.Helper()
	for len(s.servers) <= i {
		server := testredis.Real(s.t, 1)[0]
		for _, rules := range append(lockerRules(s.t), []string{"locker", "nopass"}, []string{"admin", "on", "nopass", "~*", "&*", "+@all"}) {
			_, err := server.Do("ACL", append([]any{"SETUSER"}, toAny(rules)...)...)
			require.NoError(s.t, err)
		}
		s.servers = append(s.servers, server)
	}
	return s.servers[i]
}

func toAny(words []string) (list []any) {
	for _, word := range words {
		list = append(list, word)
	}
	return list
}

// lockerRules returns what follows ACL SETUSER in the lines of docs/operations.md.
func lockerRules(t *testing.T) (lines [][]string) {
	t.Helper()
	for _, rules := range testredis.LockerRules(t, root) {
		lines = append(lines, append([]string{"locker"}, rules...))
	}
	require.NotEmpty(t, lines)
	return lines
}

// elsewhere are the nodes and ports that a document names. Ports from 7000 to 7099 are those of servers that it starts
// itself.
var elsewhere = regexp.MustCompile(`\bredis://[^\s,"'\\]+|\b70\d\d\b`)

// here returns the code of a block with what the scratch has in the place of nodes, ports and folders. The folders come last:
// their paths may have what looks like a port.
func (s *scratch) here(code string) string {
	s.t.Helper()
	code = elsewhere.ReplaceAllStringFunc(code, func(name string) string {
		url, isURL := strings.CutPrefix(name, "redis://")
		if host, port, ok := strings.Cut(url, ":"); isURL && ok && host == "127.0.0.1" && elsewhere.MatchString(port) {
			return "redis://127.0.0.1:" + s.port(port)
		}
		if !isURL {
			return s.port(name)
		}
		if s.mapped[name] == "" {
			s.mapped[name] = s.server(s.nodes).URL()
			s.nodes++
		}
		return s.mapped[name]
	})
	var folders []string
	for _, dir := range absolute {
		folders = append(folders, dir, s.dir+dir)
	}
	return strings.NewReplacer(folders...).Replace(code)
}

// port returns a free port in the place of one that the document names. Whatever listens there at the end is shut down.
func (s *scratch) port(name string) string {
	s.t.Helper()
	if s.mapped[name] == "" {
		port, reserved := freePort(s.t)
		s.mapped[name] = port
		s.t.Cleanup(func() {
			shutDown(s.t, "127.0.0.1:"+port)
			_ = reserved.Close()
		})
	}
	return s.mapped[name]
}

// freePort returns a port below those of outgoing connections. The UDP port of that number is taken meanwhile, which is how
// testredis too keeps ports apart.
func freePort(t *testing.T) (string, net.PacketConn) {
	t.Helper()
	for range 100 {
		port := fmt.Sprint(10000 + rand.IntN(32768-10000))
		reserved, err := net.ListenPacket("udp", "127.0.0.1:"+port)
		if err != nil {
			continue
		}
		if listener, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			require.NoError(t, listener.Close())
			return port, reserved
		}
		require.NoError(t, reserved.Close())
	}
	t.Fatal("no free port")
	return "", nil
}

// shutDown ends a server, and returns when it is gone.
func shutDown(t *testing.T, addr string) {
	c, err := redis.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer c.Close()
	if _, err := c.Do("SHUTDOWN", "NOSAVE"); err == nil || strings.HasPrefix(err.Error(), "ERR") {
		t.Errorf("the server at %s does not shut down: %v", addr, err)
	}
}

// environment returns that of a script.
func (s *scratch) environment() (env []string) {
	wd, err := filepath.Abs(root)
	require.NoError(s.t, err)
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "REDLOCK_") || slices.Contains([]string{"PATH", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "LC_ALL"}, name) {
			continue
		}
		env = append(env, variable)
	}
	path := []string{filepath.Join(s.dir, "bin"), filepath.Join(s.dir, "usr/local/bin"), os.Getenv("PATH")}
	return append(env, "LC_ALL=C", "PATH="+strings.Join(path, string(filepath.ListSeparator)),
		rootEnv+"="+wd, scratchEnv+"="+s.dir, toolEnv+"="+tool.Build(s.t, root), pathEnv+"="+os.Getenv("PATH"),
		"REDLOCK_CONFIG="+filepath.Join(s.dir, "web.json"), "GOBIN="+filepath.Join(s.dir, "usr/local/bin"))
}

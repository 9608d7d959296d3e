// Package packaging_test starts the service of the packages as systemd would.
package packaging_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

func TestService_ShowsThePageOfTheServersInTheConfiguration(t *testing.T) {
	unit, err := os.ReadFile("redlock-web.service")
	require.NoError(t, err)
	dir := t.TempDir() // /usr/bin, and that of the credentials (%d)
	out, err := exec.Command("go", "build", "-o", dir, "../cmd/redlock").CombinedOutput()
	require.NoError(t, err, "%s", out)

	const password = "a-password"
	servers := testredis.Real(t, 3)
	testredis.Account(t, servers, "locker", password, "cron:*")
	files := map[string]string{"/etc/redlock.password": password + "\n"}
	example, err := os.ReadFile("../examples/cron/redlock.json")
	require.NoError(t, err)
	var config map[string]any
	require.NoError(t, json.Unmarshal(example, &config))
	config["nodes"] = testredis.URLs(servers)
	text, err := json.Marshal(config)
	require.NoError(t, err)
	files["/etc/redlock.json"] = string(text)
	for _, credential := range setting(unit, "LoadCredential") {
		name, path, _ := strings.Cut(credential, ":")
		require.Contains(t, files, path)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(files[path]), 0o600))
	}

	here := strings.NewReplacer("%d", dir, "/usr/bin", dir)
	start := setting(unit, "ExecStart")
	require.Len(t, start, 1)
	words := append(strings.Fields(here.Replace(start[0])), "--listen=127.0.0.1:0")
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	for _, variable := range setting(unit, "Environment") {
		cmd.Env = append(cmd.Env, here.Replace(variable))
	}
	printed, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	url := urlOf(t, printed)
	for path, of := range map[string]string{"": "%s", "metrics": "redlock_probe_node_up{node=\"%s\"} 1\n"} {
		response, err := http.Get(url + path) //nolint:noctx // the page of this test
		require.NoError(t, err)
		page, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode)
		for _, s := range servers {
			require.Contains(t, string(page), fmt.Sprintf(of, s.Addr()))
		}
		require.NotContains(t, string(page), password)
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
}

// setting returns the values of a setting of the unit.
func setting(unit []byte, name string) (values []string) {
	for _, match := range regexp.MustCompile(`(?m)^`+name+`=(.*)$`).FindAllStringSubmatch(string(unit), -1) {
		values = append(values, match[1])
	}
	return values
}

// urlOf returns the first URL that is printed, and reads on.
func urlOf(t *testing.T, printed io.Reader) string {
	t.Helper()
	lines := bufio.NewScanner(printed)
	for lines.Scan() {
		if url := regexp.MustCompile(`http://[\d.:]+/`).FindString(lines.Text()); url != "" {
			go func() { _, _ = io.Copy(io.Discard, printed) }()
			return url
		}
	}
	t.Fatal("no URL was printed")
	return ""
}

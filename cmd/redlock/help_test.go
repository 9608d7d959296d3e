package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// commands returns the model of all commands.
func commands(t *testing.T) []*kong.Node {
	parser, err := kong.New(&cli{}, kong.Vars{"version": ""})
	require.NoError(t, err)
	return parser.Model.Children
}

func TestHelp_FitsOneScreenAndHasAnExample(t *testing.T) {
	for _, c := range commands(t) {
		code, out, _ := call(t.Context(), c.Name, "--help")
		assert.Zero(t, code)
		assert.Regexp(t, "(?m)^    .*redlock "+c.Name, out, "an example")
		lines := strings.Split(out, "\n")
		assert.LessOrEqual(t, len(lines), 50, out)
		for _, line := range lines {
			assert.LessOrEqual(t, utf8.RuneCountInString(line), 80, line)
		}
	}
}

func TestMan_HasEveryCommandAndFlag(t *testing.T) {
	code, out, failure := call(t.Context(), "man")
	require.Zero(t, code, failure)
	for _, c := range commands(t) {
		assert.Contains(t, out, "\n.SS "+roff(c.Name))
		for _, f := range c.Flags {
			flag := regexp.QuoteMeta(roff("--" + f.Name))
			assert.Equal(t, !f.Hidden, regexp.MustCompile("\n.B .*"+flag+"[=\n]").MatchString(out), f.Name)
		}
	}
	for _, unseen := range []string{"docker exec", "ssh", "systemd-run"} {
		assert.Contains(t, out, roff(unseen))
	}
	for line := range strings.SplitSeq(out, "\n") {
		assert.False(t, strings.HasPrefix(line, "'"), line)
	}
	for _, section := range []string{"NODES", "IF THE LOCK IS LOST", "SIGNALS", "FILES", "EXAMPLES", "EXIT STATUS", "ENVIRONMENT", "SEE ALSO"} {
		assert.Equal(t, 1, strings.Count(out, "\n.SH "+section+"\n"), section)
	}
	for _, flag := range []string{"config", "key-prefix", "password-file", "tls-ca"} {
		assert.Equal(t, 1, strings.Count(out, "\n.B "+roff("--"+flag)), "%s: flags of the nodes are there once", flag)
	}
}

func TestExitCodes_AreInTheDocumentation(t *testing.T) {
	content, err := os.ReadFile("../../docs/tool.md")
	require.NoError(t, err)
	for _, e := range exitCodes {
		assert.Contains(t, string(content), "| "+e.code+" | "+e.means+" |")
	}
}

// complete returns what bash offers at the end of a line.
func complete(t *testing.T, line string) []string {
	t.Helper()
	_, script, _ := call(t.Context(), "completion", "bash")
	script += `
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_redlock; printf '%s\n' "${COMPREPLY[@]}"`
	cmd := exec.Command("bash", append([]string{"-c", script, "bash"}, strings.Split(line, " ")...)...)
	cmd.Dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "a-file"), nil, 0o600))
	out, err := cmd.Output()
	require.NoError(t, err, line)
	return strings.Fields(string(out))
}

func TestCompletion_InBash(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash")
	}
	for line, want := range map[string][]string{
		"redlock be":                   {"bench"},
		"redlock bench --fre":          {"--freeze"},
		"redlock bench --names = h":    {"hot"},
		"redlock bench --names ":       {"distinct", "hot"},
		"redlock list --config = a":    {"a-file"},
		"redlock bench --rate 5 --cou": {"--count"},
		"redlock bench --rate ":        nil,
		"redlock completion z":         {"zsh"},
		"redlock demo -- --fre":        nil,
	} {
		assert.ElementsMatch(t, want, complete(t, line), line)
	}
}

func TestCompletion_ForEachShellHasEveryCommandAndFlag(t *testing.T) {
	for shell, flag := range map[string]string{"bash": "--", "zsh": "--", "fish": "-l "} {
		code, out, failure := call(t.Context(), "completion", shell)
		require.Zero(t, code, failure)
		for _, c := range commands(t) {
			assert.Contains(t, out, c.Name)
			for _, f := range c.Flags {
				if !f.Hidden {
					assert.Contains(t, out, flag+f.Name, shell)
				}
			}
		}
	}
}

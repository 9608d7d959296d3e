//go:build unix

package docs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// kinds are the tags of blocks, and how each is run. What is nil is not.
var kinds = map[string]func(s *scratch, code string) error{
	"go":      nil, // quote_test.go
	"text":    nil,
	"sh":      func(s *scratch, code string) error { return s.script("sh", code) },
	"bash":    func(s *scratch, code string) error { return s.script("bash", code) },
	"crontab": (*scratch).crontab,
	"json":    (*scratch).json,
	"redis":   (*scratch).redis,
}

func TestBlocks_AreFencedAndHaveATag(t *testing.T) {
	t.Parallel()
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			assert.Truef(t, b.fenced, "%s:%d: an indented block; fence it, with one of the tags %q", d.path, b.line, tags())
			if b.fenced {
				assert.Containsf(t, kinds, b.tag, "%s:%d: the tag %q is none of %q", d.path, b.line, b.tag, tags())
			}
		}
	}
}

func tags() []string { return slices.Sorted(maps.Keys(kinds)) }

func TestBlocks_Run(t *testing.T) {
	t.Parallel()
	for _, d := range documents(t) {
		if !slices.ContainsFunc(d.blocks, func(b block) bool { return kinds[b.tag] != nil }) {
			continue
		}
		t.Run(d.path, func(t *testing.T) {
			t.Parallel()
			s := newScratch(t)
			for _, b := range d.blocks {
				run := kinds[b.tag]
				if run == nil {
					continue
				}
				if b.notRun != "" {
					t.Logf("%s:%d: not run: %s", d.path, b.line, b.notRun)
					run = (*scratch).syntax
				}
				assert.NoErrorf(t, run(s, b.code), "%s:%d", d.path, b.line)
			}
		})
	}
}

// syntax checks a script that is not run.
func (s *scratch) syntax(code string) error {
	if out, err := exec.CommandContext(s.t.Context(), "bash", "-n", "-c", code).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// exitCode matches where a block states the exit code of a command.
var exitCode = regexp.MustCompile(`(?:exit code|exits with) (\d+)`)

// notFound matches what a shell says of a program that is not there.
var notFound = regexp.MustCompile(`: (command )?not found|No such file or directory|[Ss]yntax error`)

// untilInterrupted is what a command prints that runs until it is interrupted.
const untilInterrupted = "(Ctrl-C ends it)"

// script runs a block in a shell. Commands that it leaves in the background are ended, and so is one that says that it runs
// until it is interrupted.
func (s *scratch) script(shell, code string) error {
	if strings.Contains(code, "redis-server ") {
		testredis.Real(s.t, 0) // skips the test where it is missing
	}
	_ = os.Remove(notes(s.dir))
	stated := map[int]bool{0: true}
	for _, match := range exitCode.FindAllStringSubmatch(code, -1) {
		var n int
		_, _ = fmt.Sscan(match[1], &n)
		stated[n] = true
	}
	cmd := exec.Command(shell, "-u", "-c", s.here(code))
	cmd.Dir, cmd.Env = filepath.Join(s.dir, "work"), s.environment()
	output, interrupted, err := together(s.t.Context(), cmd)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	commands, err := s.ended()
	if err != nil {
		return err
	}
	if len(commands) == 0 && strings.Contains(code, "redlock ") {
		return fmt.Errorf("nothing was run:\n%s", output)
	}
	last := cmd.ProcessState.ExitCode()
	for _, e := range commands {
		doctor := strings.HasPrefix(e.Command, "redlock doctor") && e.Code == 1 // warnings are a result
		background := e.Code == 128+int(syscall.SIGTERM)                        // ended below
		switch {
		case !stated[e.Code] && !doctor && !background:
			return fmt.Errorf("exit code %d of %s:\n%s", e.Code, e.Command, output)
		case doctor && last == 1:
			last = 0
		}
	}
	if !interrupted && !stated[last] {
		return fmt.Errorf("exit code %d:\n%s", last, output)
	}
	if notFound.MatchString(output) {
		return errors.New(output)
	}
	return nil
}

// together runs a command in a process group of its own, and returns what it and all of its descendants print, when all of
// them have ended. What is left when the command itself has ended gets a TERM.
func together(ctx context.Context, cmd *exec.Cmd) (output string, interrupted bool, err error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return "", false, err
	}
	defer reader.Close()
	cmd.Stdout, cmd.Stderr = writer, writer
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := errors.Join(cmd.Start(), writer.Close()); err != nil {
		return "", false, err
	}
	group := -cmd.Process.Pid
	defer context.AfterFunc(ctx, func() { _ = syscall.Kill(group, syscall.SIGKILL) })()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		_ = syscall.Kill(group, syscall.SIGTERM)
	}()
	var all strings.Builder
	buffer := make([]byte, 4096)
	for {
		n, err := reader.Read(buffer)
		all.Write(buffer[:n])
		if !interrupted && strings.Contains(all.String(), untilInterrupted) {
			interrupted = true
			_ = syscall.Kill(group, syscall.SIGTERM)
		}
		if err != nil {
			<-ended
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return all.String(), interrupted, err
		}
	}
}

// ended returns the commands that the programs of the last script have noted.
func (s *scratch) ended() (commands []ended, err error) {
	content, err := os.ReadFile(notes(s.dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for line := range strings.Lines(string(content)) {
		var e ended
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, err
		}
		commands = append(commands, e)
	}
	return commands, err
}

// crontab runs the commands of lines for crontab(5), as cron does.
func (s *scratch) crontab(code string) error {
	field := regexp.MustCompile(`^(\*|\d+)([-,]\d+)*(/\d+)?$`)
	for line := range strings.Lines(code) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 6 {
			return fmt.Errorf("not five fields of time and a command: %s", line)
		}
		rest := line
		for _, f := range fields[:5] {
			if !field.MatchString(f) {
				return fmt.Errorf("not a field of time: %s", f)
			}
			rest = strings.TrimSpace(strings.TrimPrefix(rest, f))
		}
		code, output, err := s.cron(rest)
		for range 5 { // a busy machine: no answer in time
			if code == 69 {
				code, output, err = s.cron(rest)
			}
		}
		if err != nil || code != 0 {
			return errors.Join(err, fmt.Errorf("exit code %d:\n%s", code, output))
		}
	}
	return nil
}

// cron runs one command as cron does.
func (s *scratch) cron(command string) (code int, output string, err error) {
	cmd := exec.Command("/bin/sh", "-c", s.here(command))
	cmd.Dir, cmd.Env = s.dir, []string{"HOME=" + s.dir, "PATH=/usr/bin:/bin", scratchEnv + "=" + s.dir}
	output, _, err = together(s.t.Context(), cmd)
	return cmd.ProcessState.ExitCode(), output, err
}

// json checks a document of JSON, and a configuration file with the tool.
func (s *scratch) json(code string) error {
	var value any
	if err := json.Unmarshal([]byte(code), &value); err != nil {
		return err
	}
	if object, ok := value.(map[string]any); !ok || object["nodes"] == nil {
		return nil
	}
	s.write("work/redlock.json", s.here(code))
	return s.script("sh", "redlock inspect --config redlock.json a-lock-of-no-one")
}

// word matches a word of a command: text in double quotes may have blanks.
var word = regexp.MustCompile(`"[^"]*"|\S+`)

// redis has a server carry out the lines. A comment behind a command may state the reply.
func (s *scratch) redis(code string) error {
	reply := ""
	for line := range strings.Lines(code) {
		line = strings.TrimSpace(line)
		if stated, is := strings.CutPrefix(line, "# -> "); is && stated != reply {
			return fmt.Errorf("%q is stated, and the reply is %q", stated, reply)
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := word.FindAllString(line, -1)
		for i := range words {
			words[i] = strings.Trim(words[i], `"`)
		}
		answer, err := s.server(0).Do(words[0], toAny(words[1:])...)
		if err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
		reply = fmt.Sprint(answer)
	}
	return nil
}

func TestBlocks_ThatDoNotWorkAreFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ tag, code, want string }{
		"a flag":                     {"sh", "redlock list --nodes redis://a --key-prefx x", "key-prefx"},
		"a command":                  {"sh", "redlok list", "not found"},
		"a code that is not stated":  {"sh", "redlock run -n backup --nodes redis://a -- false", "exit code 1 of redlock run"},
		"the code of the script":     {"sh", "false", "exit code 1"},
		"a variable":                 {"sh", "echo $nowhere", "nowhere"},
		"a target":                   {"sh", "make tst", "exit code 2 of make tst"},
		"a package":                  {"sh", "go install " + module + "/cmd/redlok@latest", "go install"},
		"a module":                   {"sh", "go get " + module + "/v2", "go get"},
		"bash in sh":                 {"sh", "source <(redlock completion bash)", "yntax error"},
		"an exit code elsewhere":     {"sh", "redlock inspect --nodes unix:///none x # exit code 75", "exit code 69 of redlock inspect"},
		"faults":                     {"sh", "redlock doctor --nodes unix:///none", "exit code 2 of redlock doctor"},
		"JSON":                       {"json", `{"a": 1,}`, "invalid character"},
		"a key of the configuration": {"json", `{"nodes": ["redis://a"], "key-prefx": "x"}`, "key-prefx"},
		"ACL":                        {"redis", "ACL SETUSER x +gett", "gett"},
		"a field of time":            {"crontab", "*/15 * * * x true", "not a field of time: x"},
		"no command":                 {"crontab", "*/15 * * * *", "not five fields"},
		"a command of cron":          {"crontab", "*/15 * * * * redlok", "redlok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ErrorContains(t, kinds[test.tag](newScratch(t), test.code), test.want)
		})
	}
	s := newScratch(t)
	require.NoError(t, s.script("sh", "redlock run -n backup --nodes redis://a -- sh -c 'exit 3' || echo exit code 3"))
	require.Error(t, s.syntax("if true"))
}

func TestParse_FindsWhyABlockIsNotRun(t *testing.T) {
	t.Parallel()
	d, err := parse("a.md", []byte("<!-- not run: it needs systemd -->\n```sh\na\n```\n\n<!-- other -->\n```sh\nb\n```\n\n    c\n"))
	require.NoError(t, err)
	require.Equal(t, []block{
		{3, true, "sh", "a\n", "it needs systemd"}, {8, true, "sh", "b\n", ""}, {11, false, "", "c\n", ""},
	}, d.blocks)
}

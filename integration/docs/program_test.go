//go:build unix

package docs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
)

// What the programs below are told by the environment.
const (
	rootEnv    = "QUORUMLOCK_DOCS_ROOT"    // the repository
	scratchEnv = "QUORUMLOCK_DOCS_SCRATCH" // the folder of the scratch
	toolEnv    = "QUORUMLOCK_DOCS_TOOL"    // redlock, built from the repository
	pathEnv    = "QUORUMLOCK_DOCS_PATH"    // the PATH of the tests
)

// jobs are programs of readers that documents run: each prints its name and succeeds.
var jobs = []string{"backup", "dump-database", "upload", "tick"}

// programs are what scripts find on their PATH before what is installed. Each is this test program under another name.
var programs = map[string]func(args []string) *exec.Cmd{
	// redlock is that of the repository.
	"redlock": func(args []string) *exec.Cmd { return exec.Command(os.Getenv(toolEnv), patient(args)...) },

	// make only shows what it would do: most targets run for minutes, or run these tests.
	"make": func(args []string) *exec.Cmd {
		return in(os.Getenv(rootEnv), installed("make"), append([]string{"-n"}, args...)...)
	},

	// go works in the repository. What it would get from the net it takes from there, and benchmarks run once.
	"go": func(args []string) *exec.Cmd {
		if i := slices.Index(args, "-benchtime"); i >= 0 && i+1 < len(args) {
			args[i+1] = "1x"
		}
		if i := slices.Index(args, "./cmd/redlock"); i >= 0 {
			args = append(args[:i+1], patient(args[i+1:])...)
		}
		cmd := in(os.Getenv(rootEnv), installed("go"), args...)
		last := args[len(args)-1]
		pkg, latest := strings.CutSuffix(strings.TrimPrefix(last, module), "@latest")
		switch {
		case args[0] == "install" && latest && strings.HasPrefix(last, module):
			cmd.Args[len(cmd.Args)-1] = "." + pkg
		case args[0] == "get":
			cmd.Dir = consumer()
			cmd.Env = append(cmd.Env, "GOPROXY=off", "GOSUMDB=off", "GOFLAGS=-mod=mod", "GOWORK=off")
		}
		return cmd
	},

	// redis-server leaves nothing outside of the scratch.
	"redis-server": func(args []string) *exec.Cmd {
		program := os.Getenv("QUORUMLOCK_REDIS_SERVER")
		if program == "" {
			program = installed("redis-server")
		}
		pidfile := filepath.Join(os.Getenv(scratchEnv), fmt.Sprintf("redis-%d.pid", os.Getpid()))
		return exec.Command(program, append(args, "--pidfile", pidfile)...)
	},
}

// patience is what the commands of redlock get as --timeout, so that no machine is too busy for these tests.
var patience = map[string]string{
	"run": "5s", "try": "5s", "extend": "5s", "release": "5s", "inspect": "5s", "list": "5s", "unlock": "5s", "doctor": "5s", "web": "5s",
	"demo": "2s", // at most a quarter of its TTL
}

// patient adds a timeout to a command line of redlock that has none.
func patient(args []string) []string {
	if len(args) > 0 && patience[args[0]] != "" && !slices.Contains(args, "--timeout") {
		return slices.Insert(slices.Clone(args), 1, "--timeout="+patience[args[0]])
	}
	return args
}

// in makes a command that works in a folder, and finds what is installed rather than these programs.
func in(dir, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+os.Getenv(pathEnv))
	return cmd
}

// installed returns the path of a program that is not one of these, and one of no program if it is not installed.
func installed(program string) string {
	for _, dir := range filepath.SplitList(os.Getenv(pathEnv)) {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path
		}
	}
	return filepath.Join(os.Getenv(scratchEnv), "not-installed", program)
}

// consumer makes a module that uses the repository in the place of a release.
func consumer() (dir string) {
	dir = filepath.Join(os.Getenv(scratchEnv), "consumer")
	sums, err := os.ReadFile(filepath.Join(os.Getenv(rootEnv), "go.sum"))
	if err == nil {
		err = errors.Join(
			os.MkdirAll(dir, 0o700),
			os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module consumer\n\ngo 1.25\n\nreplace "+module+" => "+os.Getenv(rootEnv)+"\n"), 0o600),
			os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return dir
}

// ended is what is known of a command of a script.
type ended struct {
	Command string
	Code    int
}

// runProgram is the main function of these programs. It notes the command and its exit code in the scratch.
func runProgram(name string, args []string) (code int) {
	if slices.Contains(jobs, name) {
		fmt.Println(name)
		return 0
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	cmd := programs[name](slices.Clone(args))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 127
	}
	go func() {
		for sig := range signals {
			_ = cmd.Process.Signal(sig)
		}
	}()
	_ = cmd.Wait() // how it ended is in cmd.ProcessState
	if code = cmd.ProcessState.ExitCode(); code < 0 {
		code = 128 + int(cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	}
	if name == "redis-server" && code == 0 {
		code = awaitServer(args)
	}
	if err := note(ended{name + " " + strings.Join(args, " "), code}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 127
	}
	return code
}

func note(e ended) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(notes(os.Getenv(scratchEnv)), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = log.Write(append(line, '\n'))
	return errors.Join(err, log.Close())
}

func notes(scratch string) string { return filepath.Join(scratch, "commands.json") }

// awaitServer waits until a server that went into the background answers. A reader's next command comes later than that of
// a script.
func awaitServer(args []string) (code int) {
	i := slices.Index(args, "--port")
	if i < 0 || i+1 == len(args) {
		return 0
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		if c, err := redis.Dial("tcp", "127.0.0.1:"+args[i+1], redis.DialConnectTimeout(time.Second), redis.DialReadTimeout(time.Second)); err == nil {
			_, err = c.Do("PING")
			_ = c.Close()
			if err == nil {
				return 0
			}
		}
	}
	fmt.Fprintln(os.Stderr, "the server does not answer")
	return 127
}

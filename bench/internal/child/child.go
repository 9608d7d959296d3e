// Package child runs the program's own file as further processes: each gets a task, exchanges lines with the program and
// ends with it.
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Child is a process that [Start] has started. Its methods are for one goroutine.
type Child struct {
	cmd      *exec.Cmd
	orders   io.WriteCloser
	answers  *bufio.Reader
	problems strings.Builder
	ended    bool
}

// Start runs the program's own file, which finds its task under the key: see [Task]. The process ends by End, when ctx
// ends, and with this program.
func Start(ctx context.Context, key string, task any) (*Child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(task)
	if err != nil {
		return nil, err
	}
	c := &Child{cmd: exec.CommandContext(ctx, program)}
	c.cmd.Env = append(os.Environ(), key+"="+string(text))
	c.cmd.Stderr = &c.problems
	if c.orders, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	answers, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.answers = bufio.NewReader(answers)
	return c, c.cmd.Start()
}

// Tell writes a line to the process.
func (c *Child) Tell(order string) error {
	if _, err := fmt.Fprintln(c.orders, order); err != nil {
		return c.failed(err)
	}
	return nil
}

// Line returns the next line that the process prints. An error has what it has said on standard error, and ends it.
func (c *Child) Line() (string, error) {
	line, err := c.answers.ReadString('\n')
	if err != nil {
		return "", c.failed(err)
	}
	return strings.TrimSuffix(line, "\n"), nil
}

// Receive reads the next line as JSON.
func (c *Child) Receive(into any) error {
	line, err := c.Line()
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(line), into); err != nil {
		return fmt.Errorf("child: it says %.100q: %w", line, err)
	}
	return nil
}

// Ended reports whether the process has failed or was ended.
func (c *Child) Ended() bool { return c.ended }

// End makes the process end, if it has not, and waits for that.
func (c *Child) End() {
	if c.ended {
		return
	}
	c.ended = true
	_ = c.orders.Close() // which it ends with
	_ = c.cmd.Wait()     // with a failure, as a rule
}

func (c *Child) failed(err error) error {
	c.End()
	return fmt.Errorf("child: the process has failed: %w\n%s", err, c.problems.String())
}

// Task reports whether this process was started with a task under the key, and reads the task.
func Task(key string, into any) (bool, error) {
	text, ok := os.LookupEnv(key)
	if !ok {
		return false, nil
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return true, fmt.Errorf("child: %s: %w", key, err)
	}
	return true, nil
}

// Orders returns the lines that the program writes to this process. When the program ends, whatever the reason, so does
// this process.
func Orders() <-chan string {
	lines := make(chan string)
	go func() {
		scanner := bufio.NewScanner(os.Stdin)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
		os.Exit(1)
	}()
	return lines
}

// Exit ends this process with the outcome of its task.
func Exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

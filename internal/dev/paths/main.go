// Paths writes docs/paths.md: the functions that calls of the library go through, as a program shows that is built with a note at the
// beginning of each function.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// sections are those of the page, in its order. All but the first leave out the functions of the first.
var sections = []struct{ path, title, about string }{
	{"TryLock", "One TryLock", "The name is free."},
	{"lost", "A Lock that waits: its first round is lost", "Another process holds the lock. The call joins the queue, and asks the nodes to report changes."},
	{"freed", "A Lock that waits: the lock becomes free", "The key was deleted on the node, which reports that. A round follows, and wins."},
	{"renewal", "A renewal", "It is a later one: the first has asked the nodes to report changes. An Observer receives the events."},
	{"Unlock", "An Unlock", "No call waits for the lock."},
	{"shared", "A shared lock", "This is a `TryLock` with `Shared`."},
	{"all", "Two names at once", "This is a `TryLockAll`, and its `Unlock`."},
}

const head = `# The way of a call through the code

` + "`make paths`" + ` writes this page: it runs the library on one real server and notes which functions are entered, and by which. The connection
is there, and the server knows the scripts. A list has each function once, below the function that called it first, with the first
sentence of its comment. Functions of one line are on the page only if they call others.

An item at the margin is where a goroutine begins: the program's, the one that writes to the server ([` + "`Node.loop`](../internal/node/loop.go), woken by\n`Node.wakeLoop`" + `), the one that reads from it ([` + "`conn.readAll`](../internal/node/conn.go)" + `), or a timer's. A call that waits is woken by ` + "`Waiter.wake`" + `. The first
list is complete. The others leave out its functions, unless they lead to others.
`

func main() {
	log.SetFlags(0)
	if err := write("docs/paths.md"); err != nil {
		log.Fatalf("paths: %v", err)
	}
}

func write(name string) (err error) {
	servers, err := testredis.Launch(context.Background(), 1, func(err error) { log.Print(err) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, testredis.Close(servers)) }()
	text, err := page(".", servers[0].Addr())
	if err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

// page returns the page about the library in a folder. A server helps, which has no keys.
func page(root, server string) (text string, err error) {
	dir, err := os.MkdirTemp("", "paths")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file, about, err := overlay(root, dir)
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "run", "-overlay", file, "./internal/dev/paths/record", server)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	recorded, err := cmd.Output()
	if err != nil {
		return "", err
	}
	var paths map[string][][]string
	if err := json.Unmarshal(recorded, &paths); err != nil {
		return "", err
	}
	b := new(strings.Builder)
	b.WriteString(head)
	var known map[string]bool
	for _, s := range sections {
		calls := tree(paths[s.path], known)
		if known == nil {
			known = calls.names(map[string]bool{})
		}
		fmt.Fprintf(b, "\n## %s\n\n%s\n\n", s.title, s.about)
		calls.write(b, "", about)
	}
	return b.String(), nil
}

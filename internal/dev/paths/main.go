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

// sections are those of the page, in its order. known is the section whose functions a section leaves out.
var sections = []struct{ path, title, about, known string }{
	{"TryLock", "One TryLock", "The name is free.", ""},
	{"Lock", "A Lock that waits", "Another process has the lock, and its key is deleted when the node has been asked to report that.", ""},
	{"renewal", "A renewal", "The lock has `AutoExtend`, and was renewed before: with its first renewal it asked the nodes to report changes of the key.", ""},
	{"Unlock", "An Unlock", "Nobody waits for the lock.", ""},
	{"shared", "A shared lock", "A `TryLock` with `Shared`, without the functions of the first list.", "TryLock"},
	{"all", "Two names at once", "A `TryLockAll`, and its `Unlock`, without the functions of the first list.", "TryLock"},
}

const head = `# The way of a call through the code

This page is made by ` + "`make paths`" + `: a program with one real server notes which functions of the library are entered, and by which.
Each list has the functions in the order in which they were called first, below the one that called them, with the first sentence of
their comments. An item at the margin is where a goroutine begins: that of the program, that which writes to a server, that which reads
from it, or a timer's.
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
	known := map[string]map[string]bool{}
	for _, s := range sections {
		calls := tree(paths[s.path], known[s.known])
		known[s.path] = calls.names(map[string]bool{})
		fmt.Fprintf(b, "\n## %s\n\n%s\n\n", s.title, s.about)
		calls.write(b, "", about)
	}
	return b.String(), nil
}

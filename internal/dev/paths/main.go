// Paths writes docs/paths.md: the functions that calls of the library go through, as a program shows that is built with a note at the
// beginning of each function.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// sections are those of the page, in its order. All but the first leave out the functions of the first.
var sections = []struct{ path, title, about string }{
	{"TryLock", "One TryLock", "The name is free."},
	{"lost", "A Lock that waits: its first round is lost", "Another process holds the lock, and the nodes report changes already. The call joins the queue, and observes the nodes."},
	{"freed", "A Lock that waits: the lock becomes free", "The key was deleted on the node, which reports that. A round follows, and wins."},
	{"renewal", "A renewal", "The lock is taken with `RenewFor`, which makes a renewal due, and renewed twice. The node reports changes already. An Observer receives the events."},
	{"Unlock", "An Unlock", "No call waits for the lock."},
	{"shared", "A shared lock", "This is a `TryLock` with `Shared`."},
	{"all", "Two names at once", "This is a `TryLockAll`, and its `Unlock`."},
}

const head = `# The way of a call through the code

` + "`make paths`" + ` writes this page: it runs the library on one real server and notes which functions are entered. The connection
is there, and the server knows the scripts. A function stands where it was entered first, with the first sentence of its
comment. Its callers stand above it, and once more where they lead to another function. A function literal has the name of
the function around it, and stands below the function that calls it.

An item at the margin is where a goroutine begins. That is the program's, a timer's, or one of these:

- [` + "`Node.loop`" + `](../internal/node/loop.go) writes to the server; ` + "`Node.wakeLoop`" + ` wakes it.
- [` + "`conn.readAll`" + `](../internal/node/conn.go) reads from the server.
- [` + "`events.deliver`" + `](../redlock/observer.go) calls observers, and ` + "`Engine.sweep`" + ` asks for keys that may have changed.

` + "`Waiter.wake`" + ` wakes a call in the queue, and ` + "`Round.finish`" + ` a call that waits for the outcome of its round.

The first list has each function of its packages, except functions of one statement and literals outside functions, such as some
parsers of replies. The other lists leave the functions of the first out, so an item may call more than stands below it. The
timeouts of nodes (` + "`Node.expire`" + `) are left out.
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
	dir, err := os.MkdirTemp("", "paths")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	recorder, about, err := newRecorder(".", dir, servers[0].Addr())
	if err != nil {
		return err
	}
	var all []recording
	for range 3 { // what happens at the same time comes in another order, or does not come, now and then
		r, err := recorder.record()
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	return os.WriteFile(name, []byte(page(all, about)), 0o644)
}

// A recording has the stacks of each section of the page.
type recording map[string][][]string

// functions returns the functions that a section of the recording shows.
func (r recording) functions(section string) map[string]bool {
	return tree(r[section], func(string) bool { return true }).names(map[string]bool{})
}

// A recorder is a program that runs the library on a server without keys.
type recorder struct{ program, server string }

// newRecorder builds the program from the code in root, in a folder that it makes. It also returns what the comments say about functions.
func newRecorder(root, dir, server string) (*recorder, map[string]remark, error) {
	file, about, err := overlay(root, dir)
	if err != nil {
		return nil, nil, err
	}
	r := &recorder{program: filepath.Join(dir, "record"), server: server}
	build := exec.Command("go", "build", "-overlay", file, "-o", r.program, "./internal/dev/paths/record")
	build.Dir, build.Stderr = root, os.Stderr
	return r, about, build.Run()
}

func (r *recorder) record() (recording, error) {
	cmd := exec.Command(r.program, r.server)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var is recording
	err = json.Unmarshal(out, &is)
	return is, err
}

// page returns the page: the functions that all recordings have, as the first has them.
func page(all []recording, about map[string]remark) string {
	b := new(strings.Builder)
	b.WriteString(head)
	var known map[string]bool
	for _, s := range sections {
		common := all[0].functions(s.path)
		for _, r := range all[1:] {
			has := r.functions(s.path)
			maps.DeleteFunc(common, func(name string, _ bool) bool { return !has[name] })
		}
		calls := tree(all[0][s.path], func(name string) bool { return common[name] && !known[name] })
		if known == nil {
			known = calls.names(map[string]bool{})
		}
		fmt.Fprintf(b, "\n## %s\n\n%s\n\n", s.title, s.about)
		calls.write(b, "", about)
	}
	return b.String()
}

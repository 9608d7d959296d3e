// Package traced notes which functions of the library are called, and by which. In the build that internal/dev/paths makes each of them
// calls Enter first; in all other builds nobody does.
package traced

import (
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// module is how the names of the library's functions begin.
const module = "github.com/quorumlock/quorumlock/"

var (
	method  = regexp.MustCompile(`^\(?\*?(\w+)(?:\[\.\.\.\])?\)?\.(\w+)`)
	closure = regexp.MustCompile(`\.(?:func|gowrap|deferwrap)\d+.*$|-range\d+.*$|-fm$`)

	mu     sync.Mutex
	on     bool
	stacks [][]string
)

// Enter records the stack of the function that calls it.
func Enter() {
	mu.Lock()
	defer mu.Unlock()
	if !on {
		return
	}
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	var stack []string
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if name := nameOf(frame.Function); name != "" {
			stack = append(stack, name)
		}
	}
	slices.Reverse(stack)
	var once []string // a closure has the name of its function
	for _, name := range stack {
		if !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	stacks = append(stacks, once)
}

// During returns the stacks of the functions that are entered while call runs, in their order. A stack begins with the function that a
// goroutine has entered first.
func During(call func()) [][]string {
	mu.Lock()
	on, stacks = true, nil
	mu.Unlock()
	call()
	mu.Lock()
	defer mu.Unlock()
	on = false
	return stacks
}

// nameOf returns the folder and the name of a function of the library, such as "redlock Locker.TryLock"; "" for any other function.
func nameOf(function string) string {
	in, ours := strings.CutPrefix(function, module)
	if !ours || strings.HasPrefix(in, "internal/dev/") {
		return ""
	}
	slash := strings.LastIndexByte(in, '/') + 1
	pkg, name, _ := strings.Cut(in[slash:], ".")
	name = closure.ReplaceAllString(name, "")
	if m := method.FindStringSubmatch(name); m != nil {
		name = m[1] + "." + m[2]
	}
	return in[:slash] + pkg + " " + name
}

package main

import (
	"fmt"
	"go/ast"
	"go/doc"
	"strings"
)

// remark is what the page says about a function.
type remark struct{ file, text string }

// remarkOf returns the first sentence of a function's comment, without its name.
func remarkOf(f *ast.FuncDecl, file string) remark {
	text := new(doc.Package).Synopsis(f.Doc.Text())
	_, rest, _ := strings.Cut(text, " ")
	if !strings.HasPrefix(text, f.Name.Name+" ") {
		rest = text
	}
	return remark{file, rest}
}

// call is a function that was called, and the functions that it has called first.
type call struct {
	name  string
	calls []*call
}

// timeouts runs now and then, whatever the program does.
const timeouts = "internal/node Node.expire"

// tree returns the calls that stacks show, each function once: where it was entered first. A function that is not wanted is left out, unless
// it leads to another.
func tree(stacks [][]string, wanted func(string) bool) *call {
	top, seen := &call{}, map[string]bool{}
	for _, stack := range stacks {
		if len(stack) == 0 || stack[0] == timeouts {
			continue
		}
		if last := stack[len(stack)-1]; seen[last] || !wanted(last) {
			continue
		}
		at := top
		for _, name := range stack {
			at = at.to(name)
			seen[name] = true
		}
	}
	return top
}

// to returns the call of a function.
func (c *call) to(name string) *call {
	for _, to := range c.calls {
		if to.name == name {
			return to
		}
	}
	to := &call{name: name}
	c.calls = append(c.calls, to)
	return to
}

// write writes the calls as a nested list.
func (c *call) write(b *strings.Builder, indent string, about map[string]remark) {
	for _, to := range c.calls {
		_, function, _ := strings.Cut(to.name, " ")
		r := about[to.name]
		fmt.Fprintf(b, "%s- [`%s`](../%s) %s\n", indent, function, r.file, r.text)
		to.write(b, indent+"  ", about)
	}
}

// names returns the functions of all calls.
func (c *call) names(into map[string]bool) map[string]bool {
	for _, to := range c.calls {
		into[to.name] = true
		to.names(into)
	}
	return into
}

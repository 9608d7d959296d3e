package main

import (
	"errors"
	"fmt"
	"strings"
)

// Strip returns a Lua script without comments, indentation and empty lines. Each line of code stays one line, so that
// nothing else changes. It refuses text that it does not understand: long brackets, which may hold anything, and
// backquotes, which cannot stand in a raw string of Go.
func Strip(source string) (string, error) {
	if strings.HasPrefix(source, "#") {
		return "", errors.New("line 1: a line that begins with # is no Lua")
	}
	var out strings.Builder
	number := 0
	for line := range strings.Lines(source) {
		number++
		code, err := codeOf(strings.TrimRight(line, "\n"))
		if err != nil {
			return "", fmt.Errorf("line %d: %w", number, err)
		}
		if code = strings.Trim(code, " \t\r"); code != "" { // no string reaches over the end of a line
			out.WriteString(code + "\n")
		}
	}
	return out.String(), nil
}

// codeOf returns a line without its comment.
func codeOf(line string) (string, error) {
	quote := byte(0) // the quote of the string that is open; 0 if none is
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '`':
			return "", errors.New("a backquote")
		case quote != 0 && c == '\\':
			i++ // an escaped character ends no string
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '[' && opensLong(line[i:]):
			return "", errors.New("a long bracket")
		case strings.HasPrefix(line[i:], "--"):
			if opensLong(line[i+2:]) {
				return "", errors.New("a long comment")
			}
			return line[:i], nil
		}
	}
	if quote != 0 { // also if the end of the line is escaped
		return "", errors.New("a string that does not end")
	}
	return line, nil
}

// opensLong reports whether a text begins with a long bracket: [[, [=[ and so on.
func opensLong(text string) bool {
	rest, is := strings.CutPrefix(text, "[")
	return is && strings.HasPrefix(strings.TrimLeft(rest, "="), "[")
}

// function turns a stripped script into a function of another script. Its first line, which names its keys and
// arguments, becomes the list of parameters.
func function(name, script string) (string, error) {
	first, body, _ := strings.Cut(script, "\n")
	names, isLocal := strings.CutPrefix(first, "local ")
	names, _, isNamed := strings.Cut(names, " = KEYS")
	if !isLocal || !isNamed {
		return "", fmt.Errorf("%s.lua: its code must begin with a line like local key, value = KEYS[1], ARGV[1]", name)
	}
	return "local function " + name + "(" + names + ")\n" + body + "end\n", nil
}

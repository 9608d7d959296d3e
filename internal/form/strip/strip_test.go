package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The danger: somebody changes a script, and servers go on getting the former one.
func TestGenerate_IsWhatTheFileHolds(t *testing.T) {
	generated, err := Generate("..")
	require.NoError(t, err)
	file, err := os.ReadFile("../scripts.go")
	require.NoError(t, err)
	require.Equal(t, string(file), generated, "go generate ./internal/form")
}

func TestGenerate_LeavesOutNoFile(t *testing.T) {
	files, err := filepath.Glob("../*.lua")
	require.NoError(t, err)
	used := map[string]bool{}
	for _, s := range scripts {
		if !slices.ContainsFunc(scripts, func(other script) bool { return other.name == s.file && other.file != s.file }) {
			used[filepath.Join("..", s.file+".lua")] = true
		}
		if s.before != "" {
			used[filepath.Join("..", s.before+".lua")] = true
		}
	}
	for _, file := range files {
		require.True(t, used[file], file)
	}
	require.Len(t, used, len(files))
}

func TestRun_WritesTheFileAndNamesWhatItDoesNotUnderstand(t *testing.T) {
	dir := t.TempDir()
	require.ErrorContains(t, run(dir), "release.lua")
	require.NoError(t, os.CopyFS(dir, os.DirFS("..")))
	require.NoError(t, os.Remove(filepath.Join(dir, "scripts.go")))
	require.NoError(t, run(dir))
	written, err := os.ReadFile(filepath.Join(dir, "scripts.go"))
	require.NoError(t, err)
	expected, err := os.ReadFile("../scripts.go")
	require.NoError(t, err)
	require.Equal(t, string(expected), string(written))
	for file, text := range map[string]string{"heal": "return [[x]]\n", "fenced_acquire": "local key = 1\n"} {
		path := filepath.Join(dir, file+".lua")
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.ErrorContains(t, run(dir), file+".lua: ")
		require.NoError(t, os.WriteFile(path, before, 0o600))
	}
}

func TestStrip_LeavesOutCommentsIndentationAndEmptyLinesOnly(t *testing.T) {
	for source, want := range map[string]string{
		"":                                  "",
		"-- nothing":                        "",
		"\n\n  \t\n":                        "",
		"return 1":                          "return 1\n",
		"-- first\nreturn 1 -- one\n":       "return 1\n",
		"if x then\n\t  y()  \r\nend\n":     "if x then\ny()\nend\n",
		"a  =  1":                           "a  =  1\n",
		"a = b - -1":                        "a = b - -1\n",
		"a = b--1":                          "a = b\n",
		"a = b---1":                         "a = b\n",
		"x = '--' -- y":                     "x = '--'\n",
		`x = "--" -- "y`:                    "x = \"--\"\n",
		`x = '\'--' -- '`:                   "x = '\\'--'\n",
		`x = "\"--" .. '"' -- "`:            "x = \"\\\"--\" .. '\"'\n",
		`x = '\\' -- it's`:                  "x = '\\\\'\n",
		"x = '  ' ":                         "x = '  '\n",
		"-- it's [half]":                    "",
		"--[half a comment":                 "",
		"--[=half":                          "",
		"x = a[b[1]]":                       "x = a[b[1]]\n",
		"x = t[ [1] ]":                      "x = t[ [1] ]\n",
		"x = '[[' .. \"[=[\" -- [[":         "x = '[[' .. \"[=[\"\n",
		"string.find(s, '^(.*)|%d+$') -- %": "string.find(s, '^(.*)|%d+$')\n",
	} {
		got, err := Strip(source)
		require.NoError(t, err, source)
		require.Equal(t, want, got)
		again, err := Strip(got)
		require.NoError(t, err)
		require.Equal(t, got, again)
	}
}

func TestStrip_RefusesWhatItDoesNotUnderstand(t *testing.T) {
	for source, want := range map[string]string{
		"x = [[text]]":         "line 1: a long bracket",
		"y()\nx = [==[text]==": "line 2: a long bracket",
		"x = f[[text]]":        "line 1: a long bracket",
		"x = 1 --[[ a\nb ]]":   "line 1: a long comment",
		"--[=[ a\nb ]=]":       "line 1: a long comment",
		"x = 'a":               "line 1: a string that does not end",
		"x = 'a\\\nb'":         "line 1: a string that does not end",
		"\nx = \"a'":           "line 2: a string that does not end",
		"x = '`'":              "line 1: a backquote",
		"#!lua name=x\n":       "line 1: a line that begins with #",
	} {
		_, err := Strip(source)
		require.ErrorContains(t, err, want, source)
	}
}

func TestFunction_MakesParametersOfTheFirstLine(t *testing.T) {
	got, err := function("f", "local key, value, state = KEYS[1], ARGV[1], {}\nreturn key\n")
	require.NoError(t, err)
	require.Equal(t, "local function f(key, value, state)\nreturn key\nend\n", got)
	for _, script := range []string{"", "return KEYS[1]\n", "local a = ARGV[1]\nlocal key = KEYS[1]\n", "key = KEYS[1]\n"} {
		_, err := function("f", script)
		require.ErrorContains(t, err, "f.lua: its code must begin")
	}
}
